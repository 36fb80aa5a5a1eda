import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.errors import InvalidInput, NotFound
from agentvm.errors.bounds import HistoryTooLarge
from agentvm.model.exchange import by_turn
from agentvm.model.ids import MessageId, TurnId
from agentvm.model.message import AssistantMessage, Message, TextPart, UserMessage
from agentvm.runtime.history import edit, in_order, keep_to, regenerate, select, take_from, up_to


def asked(turn: int) -> Message:
    return UserMessage(id=MessageId(f"u{turn}"), timestamp=1, turn_id=TurnId(f"t{turn}"), role="user", content=f"ask {turn}")


def answer(turn: int, number: int = 1) -> Message:
    return AssistantMessage(
        id=MessageId(f"a{turn}.{number}"),
        timestamp=1,
        turn_id=TurnId(f"t{turn}"),
        role="assistant",
        content=(TextPart(text="answer"),),
    )


QUEUED = [asked(1), asked(2), answer(1), answer(2)]
"""The second was asked while the first was being answered."""


def test_a_conversation_is_read_turn_by_turn() -> None:
    assert [one.id for one in in_order(QUEUED)] == ["u1", "a1.1", "u2", "a2.1"]


def test_to_go_back_to_an_answer_takes_back_what_was_asked_after_it() -> None:
    assert keep_to(MessageId("a1.1"))(QUEUED).taken == ("u2", "a2.1")
    assert keep_to(MessageId("a2.1"))(QUEUED).taken == ()
    assert take_from(MessageId("u2"))(QUEUED).taken == ("u2", "a2.1")
    assert take_from(MessageId("u1"))(QUEUED).taken == ("u1", "a1.1", "u2", "a2.1")


def test_an_edit_takes_back_the_question_and_leaves_the_answer_before_it() -> None:
    wanted = edit(MessageId("u2"), "other")(QUEUED)
    assert (wanted.taken, wanted.content) == (("u2", "a2.1"), "other")
    with pytest.raises(InvalidInput, match=r"a1\.1 is not a message of a user"):
        edit(MessageId("a1.1"), "other")(QUEUED)


@pytest.mark.parametrize(
    ("message_id", "taken", "content"),
    [
        (None, ("u2", "a2.1"), "ask 2"),
        ("a2.1", ("u2", "a2.1"), "ask 2"),
        ("a1.1", ("u1", "a1.1", "u2", "a2.1"), "ask 1"),
        ("u1", ("u1", "a1.1", "u2", "a2.1"), "ask 1"),
    ],
)
def test_an_answer_is_made_anew_by_asking_again(message_id: str | None, taken: tuple[str, ...], content: str) -> None:
    wanted = regenerate(None if message_id is None else MessageId(message_id))(QUEUED)
    assert (wanted.taken, wanted.content) == (taken, content)


def test_what_is_not_there_is_not_found_and_an_empty_history_has_nothing_to_ask_again() -> None:
    for choose in (keep_to(MessageId("x")), take_from(MessageId("x")), edit(MessageId("x"), "y"), regenerate(MessageId("x"))):
        with pytest.raises(NotFound, match="There is no message x"):
            choose(QUEUED)
    with pytest.raises(InvalidInput, match="There is no message yet"):
        regenerate(None)([])
    assert [one.id for one in up_to(QUEUED, MessageId("a1.1"))] == ["u1", "a1.1"]


def test_messages_from_before_turns_were_told_belong_to_the_question_before_them() -> None:
    old = [UserMessage(id=MessageId(name), timestamp=1, role="user", content=name) for name in ("q1", "q2")]
    loose = AssistantMessage(id=MessageId("a"), timestamp=1, role="assistant", content=(TextPart(text="x"),))
    assert [[one.id for one in turn] for turn in by_turn([old[0], loose, old[1]])] == [["q1", "a"], ["q2"]]


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans()), max_size=15), st.data())
def test_what_stays_and_what_is_taken_are_the_history_in_order(told: list[tuple[int, bool]], data: st.DataObject) -> None:
    history: list[Message] = []
    for number, (turn, is_question) in enumerate(told):
        known = any(one.turn_id == f"t{turn}" for one in history)
        history.append(answer(turn, number) if known or not is_question else asked(turn))
    ordered = [one.id for one in in_order(history)]
    assert sorted(ordered) == sorted(one.id for one in history)
    if history:
        place = data.draw(st.sampled_from(history)).id
        stays = tuple(one.id for one in up_to(history, place))
        assert stays + keep_to(place)(history).taken == tuple(ordered)
        assert stays[:-1] + take_from(place)(history).taken == tuple(ordered)


def test_what_lies_beyond_what_was_read_is_said_to_be_too_far_back() -> None:
    with pytest.raises(HistoryTooLarge, match="fork the session"):
        select(keep_to(MessageId("u9")), [asked(1)], True)
    with pytest.raises(NotFound):
        select(keep_to(MessageId("u9")), [asked(1)], False)
