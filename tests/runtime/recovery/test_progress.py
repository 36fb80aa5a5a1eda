from agentvm.events.base import Event, EventData, EventScope
from agentvm.events.stream import MessageStart, MessageStop, TextDelta, ToolUseStop
from agentvm.events.tool import ToolStarted
from agentvm.events.turn import TurnResumed
from agentvm.model.ids import DEFAULT_TENANT, MessageId, TurnId
from agentvm.model.message import (
    AssistantMessage,
    Message,
    TextOutput,
    TextPart,
    ToolCall,
    ToolCallMessage,
    ToolResult,
    ToolResultMessage,
    UserMessage,
)
from agentvm.model.placed_call import PlacedCall
from agentvm.model.usage import Usage
from agentvm.runtime.recovery.progress import (
    Done,
    Partial,
    drop_ended,
    find_cut,
    find_partial,
    find_started,
    find_tool_use,
    review,
)

ONE, TWO = TurnId("turn_1"), TurnId("turn_2")
SPENT = Usage(input_tokens=3, output_tokens=5)


def user(turn_id: TurnId = ONE) -> Message:
    return UserMessage(id=MessageId("u"), timestamp=1, turn_id=turn_id, role="user", content="go")


def step(message_id: str, turn_id: TurnId = ONE) -> Message:
    parts = (TextPart(text="hm"),)
    return AssistantMessage(
        id=MessageId(message_id), timestamp=1, turn_id=turn_id, role="assistant", content=parts, usage=SPENT
    )


def call(call_id: str, parent: str, turn_id: TurnId = ONE) -> Message:
    asked = ToolCall(id=call_id, name="t", input={})
    return ToolCallMessage(
        id=MessageId(f"m_{call_id}"),
        timestamp=1,
        turn_id=turn_id,
        role="assistant",
        tool_call=asked,
        parent_id=MessageId(parent),
    )


def result(call_id: str) -> Message:
    given = ToolResult(id=call_id, name="t", output=TextOutput(value="x"))
    return ToolResultMessage(
        id=MessageId(f"r_{call_id}"), timestamp=1, turn_id=ONE, role="tool", tool_call_id=call_id, tool_result=given
    )


def test_a_turn_that_had_not_begun_to_answer_has_done_nothing() -> None:
    assert review([user()], ONE) == Done()


def test_calls_with_a_result_are_done_and_those_without_are_left() -> None:
    done = review([user(), call("c1", "a"), call("c2", "a"), step("a"), result("c1")], ONE)
    assert [pending.id for pending in done.unanswered] == ["c2"]
    assert done.usage == SPENT
    assert done.call_ids == {"c1", "c2"}


def test_calls_of_a_step_that_was_not_finished_never_ran_but_their_ids_are_taken() -> None:
    done = review([user(), call("c1", "a"), step("a"), result("c1"), call("c2", "b")], ONE)
    assert done.unanswered == ()
    assert done.call_ids == {"c1", "c2"}


def test_a_call_without_input_has_begun_only_if_that_was_told() -> None:
    (left,) = review([user(), call("c1", "a"), step("a")], ONE).unanswered
    asked, started = (
        ToolUseStop(tool_call_id="c1", tool_name="t", input={}),
        ToolStarted(turn_id=ONE, tool_id="c1", tool_name="t"),
    )
    assert find_started(told(asked), ONE, [left]) == set()
    assert find_started(told(asked, started), ONE, [left]) == {"c1"}


def test_other_turns_do_not_count() -> None:
    assert review([user(TWO), call("c1", "a", TWO), step("a", TWO)], ONE) == Done()


def test_every_finished_step_was_paid_for() -> None:
    assert review([user(), step("a"), step("b")], ONE).usage == SPENT + SPENT


def told(*said: EventData, turn_id: TurnId = ONE) -> list[Event]:
    return [Event(data=data, scope=EventScope(turn_id=turn_id), timestamp=1, tenant_id=DEFAULT_TENANT) for data in said]


def start(message_id: str, text: str | None = None) -> EventData:
    return MessageStart(message_id=message_id, model="m", text=text)


def test_a_message_that_was_not_finished_is_what_was_heard_of_it() -> None:
    asked = ToolUseStop(tool_call_id="c1", tool_name="t", input={})
    events = told(start("a"), TextDelta(text="x"), MessageStop(stop_reason="tool_use"), start("b"), TextDelta(text="y"), asked)
    assert find_partial(events, ONE) == Partial(MessageId("b"), "y", ("c1",))
    assert find_partial(told(start("a"), TextDelta(text="x"), turn_id=TWO), ONE) is None
    assert find_partial([*events, *told(MessageStop(stop_reason="end_turn"))], ONE) is None


def test_what_was_heard_before_one_restart_was_heard_before_the_next() -> None:
    resumed = TurnResumed(turn_id=ONE, message_id=MessageId("u"), attempt=1, timestamp=1)
    events = told(start("a"), TextDelta(text="x"), resumed)
    assert find_partial(events, ONE) == Partial(MessageId("a"), "x")
    events += told(start("b", "x"), TextDelta(text="y"), resumed)
    assert find_partial(events, ONE) == Partial(MessageId("b"), "xy")


def test_output_of_ended_messages_may_be_dropped_at_any_place_without_a_difference() -> None:
    resumed = TurnResumed(turn_id=ONE, message_id=MessageId("u"), attempt=1, timestamp=1)
    events = told(
        start("a"),
        TextDelta(text="a"),
        ToolUseStop(tool_call_id="c", tool_name="t", input={}),
        MessageStop(stop_reason="tool_use"),
        start("b"),
        TextDelta(text="b"),
        resumed,
        start("d", "b"),
        TextDelta(text="d"),
        MessageStop(stop_reason="end_turn"),
    )
    for end in range(len(events) + 1):
        for cut in range(end + 1):
            kept = drop_ended([*drop_ended(events[:cut]), *events[cut:end]])
            assert find_partial(kept, ONE) == find_partial(events[:end], ONE)
            assert find_cut(kept, ONE) == find_cut(events[:end], ONE)
            assert [event for event in kept if isinstance(event.data, ToolUseStop)] == [
                event for event in events[:end] if isinstance(event.data, ToolUseStop)
            ]
    assert len(drop_ended(events)) == len(events) - 3


def test_the_time_of_tools_and_the_calls_of_programs_are_known_after_a_restart() -> None:
    def placed(call_id: str, tool_ms: int, *, is_nested: bool = False) -> PlacedCall:
        return PlacedCall(turn_id=ONE, call_id=call_id, tool="t", policy="", tool_ms=tool_ms, is_nested=is_nested)

    assert find_tool_use([placed("p.1", 200, is_nested=True), placed("p", 900)]) == (900, frozenset({"p.1"}))
    assert find_tool_use([]) == (0, frozenset())


def test_a_call_that_the_provider_makes_is_not_ours_to_answer() -> None:
    asked = ToolCall(id="s", name="web_search", input={}, by_provider=True)
    search = ToolCallMessage(
        id=MessageId("m_s"), timestamp=1, turn_id=ONE, role="assistant", tool_call=asked, parent_id=MessageId("msg_1")
    )
    done = review([user(), step("msg_1"), search], ONE)
    assert (done.unanswered, done.at_provider, done.call_ids) == ((), (asked,), frozenset({"s"}))
    # The next answer of the provider has its result, unless the message that asked for it was cut off.
    assert done.lost_at_provider == ()
    assert review([user(), search], ONE).lost_at_provider == (asked,)
