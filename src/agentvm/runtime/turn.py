"""Turn — one unit of work as a pure function: `(state, output) -> (state, events)`.

A turn is one or more model calls. Within a call, outputs become stream events at once and messages when they are complete;
state events are for user interfaces. For one output the order is fixed: stream event, message, state, turn. `TurnResponse` is
the one terminal event and always the last; `ended` is true from then on, and nothing follows.

Ids of the messages a turn produces are derived from the turn's own, so the same outputs always give the same events.
"""

from agentvm.drivers import base as model
from agentvm.events import error, message, state, stream
from agentvm.events import turn as turn_events
from agentvm.events.base import EventData
from agentvm.model.ids import MessageId
from agentvm.model.message import AssistantMessage, AssistantPart, ErrorMessage, TextPart, ThinkingPart, ToolCall, repair_text
from agentvm.model.turn import TurnOutcome
from agentvm.model.usage import NO_USAGE, Usage, bounded
from agentvm.runtime.citations import cited
from agentvm.runtime.estimate import hidden_tokens, used_by_cut_call
from agentvm.runtime.turn_calls import finish_at_provider, grow_call, start_call, stop_call
from agentvm.runtime.turn_calls import lose_at_provider as lose_at_provider
from agentvm.runtime.turn_calls import tool_finished as tool_finished
from agentvm.runtime.turn_state import Events as Events
from agentvm.runtime.turn_state import Step as Step
from agentvm.runtime.turn_state import TurnState as TurnState
from agentvm.runtime.turn_state import Unchecked, join, replace, take_id
from agentvm.runtime.turn_state import begin as begin
from agentvm.runtime.turn_state import next_id as next_id


def step(now: TurnState, output: model.ModelOutput, at: int) -> Step:
    """Returns the next state and the events of one output of the model; no events once the turn has ended."""
    if now.ended:
        return now, ()
    match output:
        case model.TextChunk(text=text):
            return _grow_text(now, repair_text(text), at)
        case model.TextStarted():
            return replace(now, responding=False), (stream.TextContentBlockStart(),)
        case model.TextStopped():
            return now, (stream.TextContentBlockStop(),)
        case model.ThinkingStarted():
            return now, (state.ConversationThinking(),)
        case model.ThinkingChunk(text=text):
            text = repair_text(text)
            return replace(now, open_thinking=(now.open_thinking, text)), (stream.ThinkingDelta(text=text),)
        case model.ThinkingStopped(signature=signature):
            part = ThinkingPart(
                reasoning=join(now.open_thinking), signature=None if signature is None else repair_text(signature)
            )
            return replace(now, thinking=(*now.thinking, part), open_thinking=None), ()
        case model.ToolInputChunk(partial_json=json):
            return grow_call(now, repair_text(json))
        case model.ToolCallStarted(call_id=call_id, name=name, by_provider=by_provider):
            return start_call(now, repair_text(call_id), repair_text(name), by_provider=by_provider)
        case model.ProviderResult(call_id=call_id):
            return finish_at_provider(now, output, at)
        case model.ProviderContentReported(content=content):
            return replace(now, provider_content=content), ()
        case model.ToolCallStopped():
            return stop_call(now, at)
        case model.UsageReported(usage=usage):
            usage = bounded(usage)
            return replace(now, call_usage=usage), (stream.MessageDelta(usage=usage),)
        case model.MessageStarted(model=name):
            return _start_message(now, repair_text(name), at)
        case model.MessageStopped(stop_reason=reason):
            return _stop_message(now, reason, at)


def close_cut(now: TurnState, text: str, calls: tuple[ToolCall, ...], used: Usage, at: int) -> Step:
    """A message that a restart cut off after it had asked for tools: these calls are whole, so the turn continues with them."""
    message_id = now.told_id or MessageId("")
    parts = (TextPart(text=text),) if text.strip() else ()
    record = AssistantMessage(id=message_id, timestamp=at, turn_id=now.turn_id, role="assistant", content=parts, usage=used)
    event = message.AssistantMessageEvent(message=record) if parts else message.SilentMessageEvent(message=record)
    now = replace(now, told="", told_id=None, pending=calls)
    return now, (stream.MessageStop(stop_reason="tool_use"), event)


def interrupted(now: TurnState, at: int) -> Step:
    """Stopped by a peer. 1.x shows an interrupted turn as an ended one, so `end_turn` stays the message's stop reason."""
    if now.ended:
        return now, ()
    now, spoken = _close_message(now, cut_at=at)
    now, lost = lose_at_provider(now, at, now.at_provider)
    now, end = _end(now, "interrupted", "interrupted", at)
    return now, (
        stream.MessageStop(stop_reason="end_turn"),
        *spoken,
        *lost,
        state.ConversationEnd(reason="interrupted"),
        end,
    )


def failed(now: TurnState, code: str, text: str, recoverable: bool, at: int) -> Step:
    """Ends a failed turn and keeps its text. 1.x user interfaces wait for the three error events."""
    if now.ended:
        return now, ()
    text = repair_text(text)
    now, spoken = _close_message(now, cut_at=at)
    now, lost = lose_at_provider(now, at, now.at_provider)
    now, message_id = take_id(now)
    record = ErrorMessage(id=message_id, timestamp=at, turn_id=now.turn_id, role="error", content=text, error_code=code)
    now, end = _end(now, "failed", "error", at)
    return now, (
        *spoken,
        *lost,
        error.ErrorReceived(message=text, error_code=code),
        message.ErrorMessageEvent(message=record),
        error.ErrorOccurred(code=code, message=text, recoverable=recoverable),
        end,
    )


def _start_message(now: TurnState, name: str, at: int) -> Step:
    now, message_id = take_id(now)
    started = replace(
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
        provider_content=None,
        paused=False,
        unchecked=None,
    )
    start = stream.MessageStart(
        message_id=message_id,
        model=name,
        asked=now.asked,
        asked_at=now.asked_at,
        attempt=now.attempt,
        text=now.told or None,
        draft=now.checks_output,
    )
    return started, (start, state.ConversationStart(message_id=message_id))


def _grow_text(now: TurnState, text: str, at: int) -> Step:
    """Text of the model. Text that repeats the text sent before a restart is skipped, as long as it is identical."""
    if now.repeated is not None:
        before = now.prefix[now.repeated :]
        if before.startswith(text):
            return replace(now, repeated=now.repeated + len(text), spoken_at=now.spoken_at or at), ()
        # It has said all of it again, and continues; or it has gone on at once, and only began alike.
        text = text[len(before) :] if text.startswith(before) else now.prefix[: now.repeated] + text
        now = replace(now, repeated=None)
    delta = stream.TextDelta(text=text)
    if now.responding:
        return replace(now, text=(now.text, text)), (delta,)
    grown = replace(now, text=(now.text, text), responding=True, spoken_at=now.spoken_at or at)
    return grown, (delta, state.ConversationResponding())


def _stop_message(now: TurnState, reason: model.StopReason, at: int) -> Step:
    # Some providers say "stop" although they asked for tools; a call cut off by max_tokens must not run.
    calls_tools = bool(now.pending) and reason in ("tool_use", "end_turn")
    pending, text = now.pending if calls_tools else (), now.prefix + join(now.text) if now.checks_output else ""
    now, spoken = _close_message(now)
    if calls_tools:
        return replace(now, pending=pending), (stream.MessageStop(stop_reason="tool_use"), *spoken)
    if reason == "pause_turn":
        # To clients it is a tool that still runs.
        return replace(now, paused=True), (stream.MessageStop(stop_reason="tool_use"), *spoken)
    stop: turn_events.TurnStop = "end_turn" if reason == "tool_use" else reason
    now, lost = lose_at_provider(now, at, now.at_provider)
    if now.checks_output:
        return replace(now, unchecked=Unchecked(text, stop)), (stream.MessageStop(stop_reason=stop), *spoken, *lost)
    now, end = _end(now, "completed", stop, at)
    return now, (stream.MessageStop(stop_reason=stop), *spoken, *lost, state.ConversationEnd(reason="completed"), end)


def fitting(now: TurnState, output: object, at: int) -> Step:
    """Ends a turn whose answer fits its schema; `output` is the answer as JSON."""
    now, end = _end(now, "completed", "end_turn" if now.unchecked is None else now.unchecked.stop, at, output)
    return now, (state.ConversationEnd(reason="completed"), end)


def unanswered(now: TurnState, at: int) -> Step:
    """The request is assumed to have been read by the provider, although no output arrived."""
    if now.asked_key is None:
        return now, ()
    used = Usage(input_tokens=now.prompt_tokens, output_tokens=_hidden(now, at), estimated=True)
    _, _, name = (now.asked or "").partition("/")
    called = turn_events.ModelCalled(call_id=now.asked_key, model=name, usage=used, asked=now.asked_key)
    return replace(now, usage=now.usage + used, asked_key=None), (called,)


def _close_message(now: TurnState, *, cut_at: int | None = None) -> Step:
    """The assistant's message so far, if there is one to keep, and a state without a call in progress."""
    if now.message_id is None and cut_at is not None:
        now, called_events = unanswered(now, cut_at)
        now, events = _keep_delivered(replace(now, open_call=None, pending=(), call_usage=NO_USAGE))
        return now, (*called_events, *events)
    full_text = join(now.text)
    used = now.call_usage if cut_at is None else _used(now, now.prefix[: now.repeated or 0] + full_text, cut_at)
    text = now.prefix + full_text
    closed = replace(
        now, message_id=None, asked_key=None, open_call=None, pending=(), usage=now.usage + used, call_usage=NO_USAGE
    )
    if now.message_id is None:
        return _keep_delivered(closed)
    called = turn_events.ModelCalled(call_id=now.message_id, model=now.model or "", usage=used, asked=now.asked_key)
    thinking = now.thinking if now.open_thinking is None else (*now.thinking, ThinkingPart(reasoning=join(now.open_thinking)))
    # What was said before a restart is not part of it.
    content = None if now.prefix or cut_at is not None else now.provider_content
    parts: tuple[AssistantPart, ...] = (*thinking, TextPart(text=text)) if text.strip() else thinking
    record = AssistantMessage(
        id=now.message_id,
        timestamp=now.message_started_at,
        turn_id=now.turn_id,
        role="assistant",
        content=parts,
        usage=used,
        provider_content=content,
        citations=cited(text, now.sources) or None,
    )
    if text.strip():
        return closed, (called, message.AssistantMessageEvent(message=record))
    if parts or now.pending or content is not None:
        return closed, (called, message.SilentMessageEvent(message=record))
    return closed, (called,)


def _keep_delivered(now: TurnState) -> Step:
    """Keeps the received text of a message that a restart cut off and that was not continued."""
    if now.told_id is None or not now.told.strip():
        return now, ()
    content = (TextPart(text=now.told),)
    record = AssistantMessage(id=now.told_id, timestamp=now.accepted_at, turn_id=now.turn_id, role="assistant", content=content)
    return replace(now, told="", told_id=None), (message.AssistantMessageEvent(message=record),)


def _used(now: TurnState, text: str, at: int) -> Usage:
    thought = "".join(part.reasoning for part in now.thinking) + join(now.open_thinking)
    return used_by_cut_call(now.call_usage, text + thought, now.prompt_tokens, _hidden(now, at))


def _hidden(now: TurnState, at: int) -> int:
    return hidden_tokens(now.hidden_tokens, now.asked_at, now.spoken_at or at)


def _end(
    now: TurnState, outcome: TurnOutcome, stop: turn_events.TurnStop, at: int, output: object = None
) -> tuple[TurnState, EventData]:
    response = turn_events.TurnResponse(
        turn_id=now.turn_id,
        message_id=now.user_message_id,
        outcome=outcome,
        stop_reason=stop,
        duration=max(0, at - now.accepted_at),
        usage=now.usage,
        model=now.model,
        timestamp=at,
        output=output,
    )
    return replace(now, ended=True), response
