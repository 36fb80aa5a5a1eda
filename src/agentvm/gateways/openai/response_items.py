"""Response items — messages of a session as items of the dialect, and as parts of a turn whose events are gone. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from agentvm.errors import InvalidInput, not_found
from agentvm.gateways.openai.response_outputs import SERVER_LABEL, call_error
from agentvm.gateways.turn_parts import CallEnded, CallMade, CallWaits, TextAdded, ThinkingAdded, TurnEnded, TurnPart, TurnWaits
from agentvm.model.message import (
    AssistantMessage,
    ErrorMessage,
    FilePart,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCallMessage,
    ToolResultMessage,
    UserContent,
    UserMessage,
    is_failure,
)
from agentvm.model.turn import Turn
from agentvm.model.usage import NO_USAGE
from agentvm.model.wait import WaitId
from agentvm.operations.pages import is_number

ITEMS_MAX, DEFAULT_ITEMS_MAX = 100, 20

_encode = msgspec.json.Encoder().encode
Item = dict[str, Any]


def input_of(message: UserMessage) -> Item:
    """Returns a message of the user as an item."""
    content = _parts(message.content)
    return {"id": message.id, "type": "message", "role": "user", "status": "completed", "content": content}


def result_of(message: ToolResultMessage) -> Item:
    """Returns a result of the caller's tool as an item."""
    about = {"id": f"fco_{message.id}", "type": "function_call_output", "call_id": message.tool_call_id}
    return {**about, "output": message.tool_result.output.text, "status": "completed"}


def items_of(messages: Sequence[Message], client_tools: frozenset[str]) -> list[Item]:
    """Returns messages in their order; a call of the agent's own tool and its result are one item."""
    results = {message.tool_call_id: message for message in messages if isinstance(message, ToolResultMessage)}
    items: list[Item] = []
    for message in _spoken(messages):
        match message:
            case UserMessage():
                items.append(input_of(message))
            case AssistantMessage():
                items += _answer(message)
            case ToolCallMessage(tool_call=call) if call.name in client_tools:
                about = {"id": f"fc_{message.id}", "type": "function_call", "call_id": call.id, "name": call.name}
                items.append({**about, "arguments": _encode(call.input).decode(), "status": "completed"})
            case ToolCallMessage():
                items.append(_own_call(message, results.get(message.tool_call.id)))
            case ToolResultMessage(tool_result=result) if result.name in client_tools:
                items.append(result_of(message))
            case _:
                pass
    return items


def parts_of(turn: Turn, messages: Sequence[Message], client_tools: frozenset[str]) -> Iterator[TurnPart]:
    """Yields the parts of a turn from its messages, without times."""
    error: tuple[str, str] | None = None
    waits = False
    spoken = [*_spoken(messages)]
    if turn.options is not None and turn.options.output is not None:
        spoken = _without_rejected(spoken)
    for message in spoken:
        match message:
            case AssistantMessage(content=content):
                for part in content:
                    yield ThinkingAdded(part.reasoning) if isinstance(part, ThinkingPart) else TextAdded(part.text)
            case ToolCallMessage(tool_call=call):
                yield CallMade(call.id, call.name, call.input)
                if call.name in client_tools:
                    waits = True
                    yield CallWaits(call.id, call.name, call.input, "client", WaitId(""), "")
            case ToolResultMessage(tool_call_id=call_id, tool_result=result):
                if waits:
                    waits = False
                    yield TurnWaits(())
                yield CallEnded(call_id, result.name, result.output.text, is_failure(result.output))
            case ErrorMessage(content=text, error_code=code):
                error = (code, text)
            case _:
                pass
    if turn.outcome is None and waits:
        yield TurnWaits(())
    elif turn.outcome is not None:
        stop = {"completed": "end_turn", "interrupted": "interrupted", "failed": "error"}[turn.outcome]
        yield TurnEnded(turn.outcome, stop, turn.usage or NO_USAGE, error)  # type: ignore[arg-type]


def page_of(items: Sequence[Item], query: Mapping[str, str]) -> dict[str, object]:
    """Returns a page of a list: `order` (the newest first), `limit`, and `after`, an item of the page before."""
    order, limit, after = query.get("order", "desc"), query.get("limit", str(DEFAULT_ITEMS_MAX)), query.get("after")
    if order not in ("asc", "desc") or not is_number(limit) or not 1 <= int(limit) <= ITEMS_MAX:
        raise InvalidInput(f"order is asc or desc, limit a number from 1 to {ITEMS_MAX}")
    ordered = list(items if order == "asc" else reversed(items))
    if after is not None:
        place = next((number for number, item in enumerate(ordered) if item["id"] == after), None)
        if place is None:
            raise not_found("Item", after)
        ordered = ordered[place + 1 :]
    page = ordered[: int(limit)]
    ends = {"first_id": page[0]["id"] if page else "", "last_id": page[-1]["id"] if page else ""}
    return {"object": "list", "data": page, **ends, "has_more": len(ordered) > len(page)}


def _spoken(messages: Sequence[Message]) -> Iterator[Message]:
    """Yields messages as they were said: one with calls before its calls, which are stored first."""
    answers = {message.id: message for message in messages if isinstance(message, AssistantMessage)}
    for message in messages:
        if isinstance(message, ToolCallMessage) and message.parent_id in answers:
            yield answers.pop(message.parent_id)
        if not isinstance(message, AssistantMessage) or answers.pop(message.id, None) is not None:
            yield message


def _without_rejected(messages: Sequence[Message]) -> list[Message]:
    """Leaves out answers that did not fit their schema: each has another answer right behind it."""
    pairs = zip(messages, (*messages[1:], None), strict=True)
    return [
        message
        for message, after in pairs
        if not (isinstance(message, AssistantMessage) and isinstance(after, AssistantMessage))
    ]


def _answer(message: AssistantMessage) -> Iterator[Item]:
    thoughts = [part.reasoning for part in message.content if isinstance(part, ThinkingPart)]
    if thoughts:
        summary = [{"type": "summary_text", "text": "".join(thoughts)}]
        yield {"id": f"rs_{message.id}", "type": "reasoning", "status": "completed", "summary": summary}
    if message.text:
        content = [{"type": "output_text", "text": message.text, "annotations": [], "logprobs": []}]
        yield {"id": message.id, "type": "message", "role": "assistant", "status": "completed", "content": content}


def _own_call(message: ToolCallMessage, result: ToolResultMessage | None) -> Item:
    call = message.tool_call
    about = {"id": f"mcp_{message.id}", "type": "mcp_call", "server_label": SERVER_LABEL, "name": call.name}
    item: Item = {**about, "arguments": _encode(call.input).decode(), "output": None, "error": None, "status": "in_progress"}
    if result is None:
        return item
    output = result.tool_result.output
    if is_failure(output):
        return {**item, "error": call_error(output.text), "status": "failed"}
    return {**item, "output": output.text, "status": "completed"}


def _parts(content: UserContent) -> list[dict[str, object]]:
    if isinstance(content, str):
        return [{"type": "input_text", "text": content}]
    shown: list[dict[str, object]] = []
    for part in content:
        match part:
            case TextPart(text=text):
                shown.append({"type": "input_text", "text": text})
            case ImagePart(data=data, media_type=kind):
                shown.append({"type": "input_image", "detail": "auto", "image_url": _address(data, kind)})
            case FilePart(data=data, media_type=kind, filename=name):
                shown.append({"type": "input_file", "filename": name, "file_data": _address(data, kind)})
    return shown


def _address(data: str, media_type: str) -> str:
    """Returns data as an address: its own, or a data URL."""
    return data if data.startswith(("http:", "https:", "attachment:")) else f"data:{media_type};base64,{data}"
