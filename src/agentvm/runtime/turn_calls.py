"""Turn calls — the tool calls of a turn, as steps of its state: asked for, and answered. Pure.

A tool that the provider of the model runs has its result in the answer that calls it, or in the next. The server does not
decide about such a call; it is sent and stored like any other, and its result is untrusted text.
"""

from collections.abc import Sequence

import msgspec

from agentvm.drivers import base as model
from agentvm.events import message, state, stream
from agentvm.events.base import EventData
from agentvm.events.file import file_events
from agentvm.model.message import (
    ContentOutput,
    JsonOutput,
    TextOutput,
    ToolCall,
    ToolCallMessage,
    ToolResult,
    ToolResultMessage,
)
from agentvm.model.session_file import FileDelta
from agentvm.runtime.calls import ToolOutcome
from agentvm.runtime.tool_input import INPUT_MAX_CHARACTERS, TOO_LONG, parse_input
from agentvm.runtime.turn_state import Events, OpenCall, Step, TurnState, join, replace, take_id

SHOWN_MAX = 20_000
"""Characters of a provider's result that people are shown."""
NOT_ANSWERED = "No result: the answer ended before the provider had one."


def tool_finished(now: TurnState, call: ToolCall, outcome: ToolOutcome, at: int, *, tainted: bool = False) -> Step:
    """A call of this turn has its outcome. A `tainted` result is untrusted text."""
    now, message_id = take_id(now)
    output = outcome.output
    result: object = output.value if isinstance(output, TextOutput | JsonOutput | ContentOutput) else output.text
    record = ToolResultMessage(
        id=message_id,
        timestamp=at,
        turn_id=now.turn_id,
        role="tool",
        tool_call_id=call.id,
        tool_result=ToolResult(id=call.id, name=call.name, output=output, tainted=tainted, agent=outcome.agent),
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


def finish_at_provider(now: TurnState, result: model.ProviderResult, at: int) -> Step:
    call = next((call for call in now.at_provider if call.id == result.call_id), None)
    if call is None:
        return now, ()
    rest = tuple(other for other in now.at_provider if other is not call)
    now = replace(now, at_provider=rest, heard_strangers=True)
    value = result.value if result.is_error else _bounded(result.value)
    outcome = ToolOutcome(value, result.is_error)
    return tool_finished(now, call, outcome, at, tainted=True)


def _bounded(value: object) -> object:
    """Returns a result for people, who need not see all of it: the provider has it."""
    text = msgspec.json.encode(value).decode()
    return value if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"


def lose_at_provider(now: TurnState, at: int, calls: Sequence[ToolCall]) -> Step:
    """Gives calls that the provider has not answered their results: none stays open after its turn."""
    events: Events = ()
    for call in calls:
        now, finished = tool_finished(now, call, ToolOutcome(NOT_ANSWERED, True), at)
        events += finished
    return replace(now, at_provider=tuple(call for call in now.at_provider if call not in calls)), events


def start_call(now: TurnState, call_id: str, name: str, *, by_provider: bool) -> Step:
    while call_id in now.call_ids:
        # Some providers count their calls anew in every message; results are told apart by the id within a turn.
        call_id = f"{call_id}_{now.produced}"
    now = replace(now, open_call=OpenCall(call_id, name, by_provider), call_ids=now.call_ids | {call_id})
    return now, (
        stream.ToolUseStart(tool_call_id=call_id, tool_name=name),
        state.ToolPlanned(tool_id=call_id, tool_name=name),
        state.ToolExecuting(tool_id=call_id, tool_name=name, input={}),
    )


def grow_call(now: TurnState, json: str) -> Step:
    opened = now.open_call
    if opened is not None:
        length = opened.characters + len(json)
        if length > INPUT_MAX_CHARACTERS:
            return replace(now, open_call=replace(opened, json=None, characters=length)), ()
        now = replace(now, open_call=replace(opened, json=(opened.json, json), characters=length))
    return now, (stream.InputJsonDelta(partial_json=json),)


def stop_call(now: TurnState, at: int) -> Step:
    opened = now.open_call
    if opened is None or now.message_id is None:
        return now, ()
    too_long = opened.characters > INPUT_MAX_CHARACTERS
    arguments, problem = ({}, TOO_LONG) if too_long else parse_input(join(opened.json))
    call = ToolCall(id=opened.call_id, name=opened.name, input=arguments, problem=problem, by_provider=opened.by_provider)
    parent = now.message_id
    now, message_id = take_id(now)
    if opened.by_provider:
        now = replace(now, open_call=None, at_provider=(*now.at_provider, call))
    else:
        now = replace(now, open_call=None, pending=(*now.pending, call))
    record = ToolCallMessage(
        id=message_id, timestamp=at, turn_id=now.turn_id, role="assistant", tool_call=call, parent_id=parent
    )
    return now, (
        stream.ToolUseStop(tool_call_id=call.id, tool_name=call.name, input=arguments),
        message.ToolCallMessageEvent(message=record),
    )
