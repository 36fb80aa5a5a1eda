from agentvm.drivers import base as model
from agentvm.events.base import EventData
from agentvm.events.message import ToolCallMessageEvent, ToolResultMessageEvent
from agentvm.model.ids import MessageId, TurnId
from agentvm.model.message import ProviderContent, ToolCallMessage, ToolResultMessage
from agentvm.runtime import turn
from agentvm.runtime.turn_calls import NOT_ANSWERED, SHOWN_MAX
from agentvm.runtime.turn_state import TurnState

CALL = (
    model.MessageStarted("m", "claude"),
    model.ToolCallStarted("s1", "web_search", by_provider=True),
    model.ToolInputChunk('{"query": "a"}'),
    model.ToolCallStopped(),
)


def play(*outputs: model.ModelOutput) -> tuple[TurnState, list[EventData]]:
    state, told = turn.begin(TurnId("turn_a"), MessageId("m0"), 1), list[EventData]()
    for output in outputs:
        state, events = turn.step(state, output, 2)
        told += events
    return state, told


def results(told: list[EventData]) -> list[ToolResultMessage]:
    messages = [event.message for event in told if isinstance(event, ToolResultMessageEvent)]
    return [message for message in messages if isinstance(message, ToolResultMessage)]


def test_a_call_of_the_provider_is_stored_with_its_tainted_result_and_is_not_ours_to_run() -> None:
    state, told = play(*CALL, model.ProviderResult("s1", [{"url": "u"}]), model.MessageStopped("end_turn"))
    assert state.ended
    (call,) = [event.message for event in told if isinstance(event, ToolCallMessageEvent)]
    assert isinstance(call, ToolCallMessage)
    assert call.tool_call.by_provider
    (result,) = results(told)
    assert result.tool_result.tainted
    assert state.heard_strangers


def test_a_call_without_a_result_has_one_when_the_turn_ends() -> None:
    state, told = play(*CALL, model.MessageStopped("end_turn"))
    assert [result.tool_result.output.text for result in results(told)] == [NOT_ANSWERED]
    assert state.at_provider == ()


def test_a_result_may_come_with_the_message_after_a_pause() -> None:
    content = ProviderContent(provider="p", blocks="[]")
    paused = (*CALL, model.ProviderContentReported(content), model.MessageStopped("pause_turn"))
    state, told = play(*paused)
    assert (state.paused, state.ended, results(told)) == (True, False, [])
    state, told = play(*paused, model.MessageStarted("m2", "claude"), model.ProviderResult("s1", "found"))
    assert [result.tool_result.output.text for result in results(told)] == ["found"]
    assert not state.paused


def test_people_are_shown_the_beginning_of_a_long_result() -> None:
    _, told = play(*CALL, model.ProviderResult("s1", ["x" * (SHOWN_MAX + 1)]))
    assert len(results(told)[0].tool_result.output.text) == SHOWN_MAX + 1


def test_a_result_of_a_call_that_nobody_made_is_passed_over() -> None:
    _, told = play(*CALL, model.ProviderResult("other", "x"))
    assert results(told) == []
