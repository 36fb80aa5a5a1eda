from agentvm.model.ids import MessageId, TurnId
from agentvm.runtime.turn_state import begin, join, next_id, take_id


def test_ids_follow_from_the_turn_and_are_given_once() -> None:
    state = begin(TurnId("turn_a"), MessageId("m"), 1)
    expected = next_id(state)
    state, first = take_id(state)
    state, second = take_id(state)
    assert (first, second) == (expected, MessageId("msg_a_2"))


def test_chunks_are_joined_in_the_order_they_came() -> None:
    assert join(((None, "a"), "b")) == "ab"
    assert join(None) == ""
