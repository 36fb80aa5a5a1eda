"""Turn — one unit of work as a pure function: `(state, output) -> (state, events)`.

A turn is one or more model calls. Within a call, outputs become stream events at once and messages when they are whole;
state events tell user interfaces where things stand. For one output the order is fixed: stream event, message, state,
turn. `TurnResponse` is the one terminal event and always the last; `ended` is true from then on, and nothing follows.

Ids of the messages a turn produces are derived from the turn's own, so the same outputs always give the same events.
"""

import msgspec

from agentvm.drivers import base as model
from agentvm.events import error, message, state, stream
from agentvm.events import turn as turn_events
from agentvm.events.base import EventData
from agentvm.events.file import file_events
from agentvm.model.ids import MessageId, TurnId
from agentvm.model.message import (
    AssistantMessage,
    AssistantPart,
    ContentOutput,
    ErrorMessage,
    JsonOutput,
    TextOutput,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolCallMessage,
    ToolResult,
    ToolResultMessage,
    repair_text,
)
from agentvm.model.session_file import FileDelta
from agentvm.model.turn import TurnOutcome
from agentvm.model.usage import NO_USAGE, Usage, bounded
from agentvm.runtime.calls import PendingCall, ToolOutcome
from agentvm.runtime.estimate import hidden_tokens, used_by_cut_call
from agentvm.runtime.tool_input import parse_input

Chunks = tuple["Chunks", str] | None
"""Text in the order it came, as a linked list: appending costs the same however much there is."""


class OpenCall(msgspec.Struct, frozen=True):
    """A tool call the model is still asking for."""

    call_id: str
    name: str
    json: Chunks = None


class TurnState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a running turn."""

    turn_id: TurnId
    user_message_id: MessageId
    accepted_at: int
    produced: int = 0
    """How many message ids were given out."""
    ended: bool = False
    usage: Usage = NO_USAGE
    """Usage of the model calls that ended."""
    model: str | None = None
    call_ids: frozenset[str] = frozenset()
    """Keys of every tool call of the turn so far."""
    prompt_tokens: int = 0
    """An estimate of what the model was sent, for a call that is cut off before the provider said."""
    asked: str | None = None
    """The model that is asked, as `<provider>/<model>`."""
    asked_at: int | None = None
    attempt: int = 1
    """How often somebody was asked for this model call, with this time."""
    asked_key: str | None = None
    """Names the call that was asked, until it is billed."""
    hidden_tokens: int = 0
    """The most that the model may think with and not show."""
    spoken_at: int | None = None
    """When the first text of the call came."""
    told: str = ""
    """Text of a message that a restart cut off, which clients have received; the next message begins with it."""
    told_id: MessageId | None = None
    """The id that they know it by."""

    # The model call in progress.
    message_id: MessageId | None = None
    message_started_at: int = 0
    text: Chunks = None
    prefix: str = ""
    """The beginning of the message from before a restart; `text` is the rest."""
    repeated: int | None = None
    """How much of the prefix the model has said again, which is not told twice; None when it has not begun so."""
    thinking: tuple[ThinkingPart, ...] = ()
    open_thinking: Chunks = None
    open_call: OpenCall | None = None
    pending: tuple[PendingCall, ...] = ()
    """Calls to run once the message has stopped."""
    responding: bool = False
    call_usage: Usage = NO_USAGE


Events = tuple[EventData, ...]
Step = tuple[TurnState, Events]
_replace = msgspec.structs.replace


def begin(turn_id: TurnId, user_message_id: MessageId, accepted_at: int) -> TurnState:
    return TurnState(turn_id=turn_id, user_message_id=user_message_id, accepted_at=accepted_at)


def step(now: TurnState, output: model.ModelOutput, at: int) -> Step:
    """Returns the next state and the events of one output of the model; no events once the turn has ended."""
    if now.ended:
        return now, ()
    match output:
        case model.TextChunk(text=text):
            return _grow_text(now, repair_text(text), at)
        case model.TextStarted():
            return _replace(now, responding=False), (stream.TextContentBlockStart(),)
        case model.TextStopped():
            return now, (stream.TextContentBlockStop(),)
        case model.ThinkingStarted():
            return now, (state.ConversationThinking(),)
        case model.ThinkingChunk(text=text):
            text = repair_text(text)
            return _replace(now, open_thinking=(now.open_thinking, text)), (stream.ThinkingDelta(text=text),)
        case model.ThinkingStopped(signature=signature):
            part = ThinkingPart(
                reasoning=_join(now.open_thinking), signature=None if signature is None else repair_text(signature)
            )
            return _replace(now, thinking=(*now.thinking, part), open_thinking=None), ()
        case model.ToolInputChunk(partial_json=json):
            json = repair_text(json)
            return _grow_call(now, json), (stream.InputJsonDelta(partial_json=json),)
        case model.ToolCallStarted(call_id=call_id, name=name):
            return _start_call(now, repair_text(call_id), repair_text(name))
        case model.ToolCallStopped():
            return _stop_call(now, at)
        case model.UsageReported(usage=usage):
            usage = bounded(usage)
            return _replace(now, call_usage=usage), (stream.MessageDelta(usage=usage),)
        case model.MessageStarted(model=name):
            return _start_message(now, repair_text(name), at)
        case model.MessageStopped(stop_reason=reason):
            return _stop_message(now, reason, at)


def close_cut(now: TurnState, text: str, calls: tuple[PendingCall, ...], used: Usage, at: int) -> Step:
    """A message that a restart cut off after it had asked for tools: these calls are whole, so the turn goes on with them."""
    message_id = now.told_id or MessageId("")
    parts = (TextPart(text=text),) if text.strip() else ()
    record = AssistantMessage(id=message_id, timestamp=at, turn_id=now.turn_id, role="assistant", content=parts, usage=used)
    kept = message.AssistantMessageEvent(message=record) if parts else message.SilentMessageEvent(message=record)
    now = _replace(now, told="", told_id=None, pending=calls)
    return now, (stream.MessageStop(stop_reason="tool_use"), kept)


def tool_finished(now: TurnState, call: ToolCall, outcome: ToolOutcome, at: int, *, tainted: bool = False) -> Step:
    """A call of this turn has its outcome. A `tainted` result is a stranger's text."""
    now, message_id = _next_id(now)
    output = outcome.output
    result: object = output.value if isinstance(output, TextOutput | JsonOutput | ContentOutput) else output.text
    record = ToolResultMessage(
        id=message_id,
        timestamp=at,
        turn_id=now.turn_id,
        role="tool",
        tool_call_id=call.id,
        tool_result=ToolResult(id=call.id, name=call.name, output=output, tainted=tainted),
    )
    finished: EventData = (
        state.ToolFailedEvent(tool_id=call.id, tool_name=call.name, error=output.text)
        if outcome.is_error
        else state.ToolCompleted(tool_id=call.id, tool_name=call.name, result=result)
    )
    return now, (
        *outcome.charges,
        stream.ToolResultEvent(tool_call_id=call.id, result=result, is_error=outcome.is_error),
        message.ToolResultMessageEvent(message=record),
        *file_events(FileDelta(message_id=message_id, changes=outcome.files, at=at)),
        finished,
    )


def interrupted(now: TurnState, at: int) -> Step:
    """Stopped by a peer. 1.x shows an interrupted turn as an ended one, so `end_turn` stays the message's stop reason."""
    if now.ended:
        return now, ()
    now, spoken = _close_message(now, cut_at=at)
    now, end = _end(now, "interrupted", "interrupted", at)
    return now, (
        stream.MessageStop(stop_reason="end_turn"),
        *spoken,
        state.ConversationEnd(reason="interrupted"),
        end,
    )


def failed(now: TurnState, code: str, text: str, recoverable: bool, at: int) -> Step:
    """Ends a failed turn and keeps its text. 1.x user interfaces wait for the three error events."""
    if now.ended:
        return now, ()
    text = repair_text(text)
    now, spoken = _close_message(now, cut_at=at)
    now, message_id = _next_id(now)
    record = ErrorMessage(id=message_id, timestamp=at, turn_id=now.turn_id, role="error", content=text, error_code=code)
    now, end = _end(now, "failed", "error", at)
    return now, (
        *spoken,
        error.ErrorReceived(message=text, error_code=code),
        message.ErrorMessageEvent(message=record),
        error.ErrorOccurred(code=code, message=text, recoverable=recoverable),
        end,
    )


def _start_message(now: TurnState, name: str, at: int) -> Step:
    now, message_id = _next_id(now)
    started = _replace(
        now,
        model=name,
        message_id=message_id,
        message_started_at=at,
        text=None,
        prefix=now.told,
        repeated=0 if now.told else None,
        told="",
        told_id=None,
        thinking=(),
        open_thinking=None,
        open_call=None,
        pending=(),
        responding=False,
        spoken_at=None,
        call_usage=NO_USAGE,
    )
    start = stream.MessageStart(
        message_id=message_id,
        model=name,
        asked=now.asked,
        asked_at=now.asked_at,
        attempt=now.attempt,
        text=now.told or None,
    )
    return started, (start, state.ConversationStart(message_id=message_id))


def _grow_text(now: TurnState, text: str, at: int) -> Step:
    """Text of the model. What it says again of what was told before a restart is passed over, as long as it is the same."""
    if now.repeated is not None:
        before = now.prefix[now.repeated :]
        if before.startswith(text):
            return _replace(now, repeated=now.repeated + len(text), spoken_at=now.spoken_at or at), ()
        # It has said all of it again, and goes on; or it has gone on at once, and only began alike.
        text = text[len(before) :] if text.startswith(before) else now.prefix[: now.repeated] + text
        now = _replace(now, repeated=None)
    delta = stream.TextDelta(text=text)
    if now.responding:
        return _replace(now, text=(now.text, text)), (delta,)
    grown = _replace(now, text=(now.text, text), responding=True, spoken_at=now.spoken_at or at)
    return grown, (delta, state.ConversationResponding())


def _stop_message(now: TurnState, reason: model.StopReason, at: int) -> Step:
    # Some providers say "stop" although they asked for tools; a call cut off by max_tokens must not run.
    calls_tools = bool(now.pending) and reason in ("tool_use", "end_turn")
    pending = now.pending if calls_tools else ()
    now, spoken = _close_message(now)
    if calls_tools:
        return _replace(now, pending=pending), (stream.MessageStop(stop_reason="tool_use"), *spoken)
    stop: turn_events.TurnStop = "end_turn" if reason == "tool_use" else reason
    now, end = _end(now, "completed", stop, at)
    return now, (stream.MessageStop(stop_reason=stop), *spoken, state.ConversationEnd(reason="completed"), end)


def unanswered(now: TurnState, at: int) -> Step:
    """The call that was asked was read, as far as anybody knows, and nothing was heard of it."""
    if now.asked_key is None:
        return now, ()
    used = Usage(input_tokens=now.prompt_tokens, output_tokens=_hidden(now, at), estimated=True)
    _, _, name = (now.asked or "").partition("/")
    called = turn_events.ModelCalled(call_id=now.asked_key, model=name, usage=used, asked=now.asked_key)
    return _replace(now, usage=now.usage + used, asked_key=None), (called,)


def _close_message(now: TurnState, *, cut_at: int | None = None) -> Step:
    """The assistant's message so far, if there is one to keep, and a state without a call in progress."""
    if now.message_id is None and cut_at is not None:
        now, called_events = unanswered(now, cut_at)
        now, kept = _keep_told(_replace(now, open_call=None, pending=(), call_usage=NO_USAGE))
        return now, (*called_events, *kept)
    said = _join(now.text)
    used = now.call_usage if cut_at is None else _used(now, now.prefix[: now.repeated or 0] + said, cut_at)
    text = now.prefix + said
    closed = _replace(
        now, message_id=None, asked_key=None, open_call=None, pending=(), usage=now.usage + used, call_usage=NO_USAGE
    )
    if now.message_id is None:
        return _keep_told(closed)
    called = turn_events.ModelCalled(call_id=now.message_id, model=now.model or "", usage=used, asked=now.asked_key)
    thinking = now.thinking if now.open_thinking is None else (*now.thinking, ThinkingPart(reasoning=_join(now.open_thinking)))
    parts: tuple[AssistantPart, ...] = (*thinking, TextPart(text=text)) if text.strip() else thinking
    record = AssistantMessage(
        id=now.message_id,
        timestamp=now.message_started_at,
        turn_id=now.turn_id,
        role="assistant",
        content=parts,
        usage=used,
    )
    if text.strip():
        return closed, (called, message.AssistantMessageEvent(message=record))
    if parts or now.pending:
        return closed, (called, message.SilentMessageEvent(message=record))
    return closed, (called,)


def _keep_told(now: TurnState) -> Step:
    """Keeps the received text of a message that a restart cut off and that was not continued."""
    if now.told_id is None or not now.told.strip():
        return now, ()
    content = (TextPart(text=now.told),)
    record = AssistantMessage(id=now.told_id, timestamp=now.accepted_at, turn_id=now.turn_id, role="assistant", content=content)
    return _replace(now, told="", told_id=None), (message.AssistantMessageEvent(message=record),)


def _used(now: TurnState, text: str, at: int) -> Usage:
    thought = "".join(part.reasoning for part in now.thinking) + _join(now.open_thinking)
    return used_by_cut_call(now.call_usage, text + thought, now.prompt_tokens, _hidden(now, at))


def _hidden(now: TurnState, at: int) -> int:
    return hidden_tokens(now.hidden_tokens, now.asked_at, now.spoken_at or at)


def _start_call(now: TurnState, call_id: str, name: str) -> Step:
    while call_id in now.call_ids:
        # Some providers count their calls anew in every message; results are told apart by the id within a turn.
        call_id = f"{call_id}_{now.produced}"
    now = _replace(now, open_call=OpenCall(call_id, name), call_ids=now.call_ids | {call_id})
    return now, (
        stream.ToolUseStart(tool_call_id=call_id, tool_name=name),
        state.ToolPlanned(tool_id=call_id, tool_name=name),
        state.ToolExecuting(tool_id=call_id, tool_name=name, input={}),
    )


def _grow_call(now: TurnState, json: str) -> TurnState:
    if now.open_call is None:
        return now
    return _replace(now, open_call=_replace(now.open_call, json=(now.open_call.json, json)))


def _stop_call(now: TurnState, at: int) -> Step:
    opened = now.open_call
    if opened is None or now.message_id is None:
        return now, ()
    arguments, problem = parse_input(_join(opened.json))
    call = ToolCall(id=opened.call_id, name=opened.name, input=arguments)
    parent = now.message_id
    now, message_id = _next_id(now)
    now = _replace(now, open_call=None, pending=(*now.pending, PendingCall(call, problem)))
    record = ToolCallMessage(
        id=message_id, timestamp=at, turn_id=now.turn_id, role="assistant", tool_call=call, parent_id=parent
    )
    return now, (
        stream.ToolUseStop(tool_call_id=call.id, tool_name=call.name, input=arguments),
        message.ToolCallMessageEvent(message=record),
    )


def _end(now: TurnState, outcome: TurnOutcome, stop: turn_events.TurnStop, at: int) -> tuple[TurnState, EventData]:
    response = turn_events.TurnResponse(
        turn_id=now.turn_id,
        message_id=now.user_message_id,
        outcome=outcome,
        stop_reason=stop,
        duration=max(0, at - now.accepted_at),
        usage=now.usage,
        model=now.model,
        timestamp=at,
    )
    return _replace(now, ended=True), response


def next_id(now: TurnState) -> MessageId:
    """The id that the next message of the turn gets."""
    return MessageId(f"msg_{now.turn_id.removeprefix('turn_')}_{now.produced + 1}")


def _next_id(now: TurnState) -> tuple[TurnState, MessageId]:
    return _replace(now, produced=now.produced + 1), next_id(now)


def _join(chunks: Chunks) -> str:
    parts: list[str] = []
    while chunks is not None:
        chunks, text = chunks
        parts.append(text)
    return "".join(reversed(parts))
