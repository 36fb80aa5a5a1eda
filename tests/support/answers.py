"""Answers — the shapes of Anthropic's and OpenAI's streams and failures, for the scripted provider to play."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from tests.support.provider import Answer, Step

Json = dict[str, object]

CallSpec = tuple[str, str, Sequence[str]]
"""A tool call: its id, its name and the pieces its arguments arrive in."""


def event(name: str, data: Json) -> bytes:
    """One named event, as Anthropic sends them."""
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode({"type": name, **data}) + b"\n\n"


def chunk(data: Json) -> bytes:
    """One unnamed event, as OpenAI sends them."""
    return b"data: " + msgspec.json.encode(data) + b"\n\n"


def stream(steps: Iterable[Step]) -> Answer:
    return Answer(steps=tuple(steps))


def failure(status: int, body: Json | None = None, *, headers: Mapping[str, str] | None = None) -> Answer:
    """An answer that is not a success, with a JSON body."""
    content = msgspec.json.encode(body or {"error": {"type": "error", "message": f"scripted {status}"}})
    return Answer(status=status, content_type="application/json", headers=headers or {}, steps=(content,))


# Anthropic


def message_start(message_id: str = "msg_1", *, usage: Json | None = None) -> bytes:
    counted = usage if usage is not None else {"input_tokens": 10, "output_tokens": 1}
    message: Json = {"id": message_id, "type": "message", "role": "assistant", "model": "claude-test", "usage": counted}
    message |= {"content": [], "stop_reason": None, "stop_sequence": None}
    return event("message_start", {"message": message})


def block(index: int, content: Json, deltas: Iterable[Json]) -> list[bytes]:
    """A whole content block: its start, its deltas and its stop."""
    return [
        event("content_block_start", {"index": index, "content_block": content}),
        *(event("content_block_delta", {"index": index, "delta": delta}) for delta in deltas),
        event("content_block_stop", {"index": index}),
    ]


def text_block(index: int, *deltas: str) -> list[bytes]:
    return block(index, {"type": "text", "text": ""}, ({"type": "text_delta", "text": delta} for delta in deltas))


def thinking_block(index: int, *deltas: str, signature: str = "c2lnbmF0dXJl") -> list[bytes]:
    parts: list[Json] = [{"type": "thinking_delta", "thinking": delta} for delta in deltas]
    parts.append({"type": "signature_delta", "signature": signature})
    return block(index, {"type": "thinking", "thinking": "", "signature": ""}, parts)


def redacted_block(index: int, data: str) -> list[bytes]:
    return block(index, {"type": "redacted_thinking", "data": data}, ())


def tool_block(index: int, call: CallSpec) -> list[bytes]:
    call_id, name, pieces = call
    content: Json = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    return block(index, content, ({"type": "input_json_delta", "partial_json": piece} for piece in pieces))


def search_blocks(index: int, call_id: str, query: str, found: object) -> list[bytes]:
    """A search that the provider makes by itself, and its result."""
    halves = [f'{{"query": "{query}', '"}']
    call: Json = {"type": "server_tool_use", "id": call_id, "name": "web_search", "input": {}}
    result: Json = {"type": "web_search_tool_result", "tool_use_id": call_id, "content": found}
    asked = block(index, call, ({"type": "input_json_delta", "partial_json": piece} for piece in halves))
    return [*asked, *block(index + 1, result, ())]


def message_end(stop_reason: str = "end_turn", *, usage: Json | None = None) -> list[bytes]:
    counted = usage if usage is not None else {"output_tokens": 5}
    return [
        event("message_delta", {"delta": {"stop_reason": stop_reason, "stop_sequence": None}, "usage": counted}),
        event("message_stop", {}),
    ]


def anthropic_text(*deltas: str, stop_reason: str = "end_turn") -> Answer:
    """A text answer, one event per delta."""
    return stream([message_start(), event("ping", {}), *text_block(0, *deltas), *message_end(stop_reason)])


def anthropic_tools(*calls: CallSpec, text: str = "") -> Answer:
    """An answer that calls tools, after optional text."""
    blocks = text_block(0, text) if text else []
    for number, call in enumerate(calls, start=1 if text else 0):
        blocks += tool_block(number, call)
    return stream([message_start(), *blocks, *message_end("tool_use")])


# OpenAI

DONE = b"data: [DONE]\n\n"


def delta(content: Json, *, finish: str | None = None, message_id: str = "chatcmpl-1") -> bytes:
    """A chunk that carries a delta."""
    choice: Json = {"index": 0, "delta": content, "finish_reason": finish}
    return chunk({"id": message_id, "object": "chat.completion.chunk", "model": "gpt-test", "choices": [choice], "usage": None})


def usage_chunk(usage: Json | None = None) -> bytes:
    counted = usage if usage is not None else {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return chunk({"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "gpt-test", "choices": [], "usage": counted})


def openai_end(finish: str = "stop", *, usage: Json | None = None) -> list[bytes]:
    return [delta({}, finish=finish), usage_chunk(usage), DONE]


def openai_text(*deltas: str, finish: str = "stop") -> Answer:
    """A text answer, one chunk per delta."""
    texts = (delta({"content": text}) for text in deltas)
    return stream([delta({"role": "assistant", "content": ""}), *texts, *openai_end(finish)])


def call_delta(index: int | None, *, call_id: str | None = None, name: str | None = None, arguments: str = "") -> bytes:
    """A piece of a tool call."""
    function: Json = {"arguments": arguments} if name is None else {"name": name, "arguments": arguments}
    call: Json = {"function": function, "type": "function"}
    if index is not None:
        call["index"] = index
    if call_id is not None:
        call["id"] = call_id
    return delta({"tool_calls": [call]})


def openai_tools(*calls: CallSpec, text: str = "") -> Answer:
    """An answer that calls tools one after the other, after optional text."""
    steps = [delta({"role": "assistant", "content": text})]
    for index, (call_id, name, pieces) in enumerate(calls):
        steps.append(call_delta(index, call_id=call_id, name=name))
        steps += [call_delta(index, arguments=piece) for piece in pieces]
    return stream([*steps, *openai_end("tool_calls")])
