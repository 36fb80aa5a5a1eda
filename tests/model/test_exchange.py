from hypothesis import given
from hypothesis import strategies as st

from agentvm.model.exchange import Extent, by_turn, covered_by, ended, extent, size_of
from agentvm.model.ids import MessageId, TurnId
from agentvm.model.message import AssistantMessage, Message, TextPart, UserMessage


def asked(number: int, turn: str | None) -> Message:
    turn_id = None if turn is None else TurnId(turn)
    return UserMessage(id=MessageId(f"m{number}"), timestamp=1, turn_id=turn_id, role="user", content="q")


def answered(number: int, turn: str | None) -> Message:
    turn_id, content = None if turn is None else TurnId(turn), (TextPart(text="a"),)
    return AssistantMessage(id=MessageId(f"m{number}"), timestamp=1, turn_id=turn_id, role="assistant", content=content)


def ids(exchanges: list[list[Message]]) -> list[list[str]]:
    return [[message.id for message in one] for one in exchanges]


def test_a_conversation_is_read_turn_by_turn_however_it_was_stored() -> None:
    history = [asked(1, None), answered(2, None), asked(3, "a"), asked(4, "b"), answered(5, "a"), answered(6, "b")]
    assert ids(by_turn(history)) == [["m1", "m2"], ["m3", "m5"], ["m4", "m6"]]
    assert by_turn([]) == []


def test_exchanges_are_over_up_to_the_first_that_is_not() -> None:
    exchanges = by_turn([asked(1, "a"), asked(2, "b"), asked(3, "c")])
    assert ended(exchanges, ()) == 3
    assert ended(exchanges, {TurnId("b")}) == 1
    assert ended(exchanges, {TurnId("a"), TurnId("c")}) == 0


def test_the_first_exchanges_are_told_from_the_rest() -> None:
    history = [asked(1, "a"), asked(2, "b"), answered(3, "a"), answered(4, "b")]
    assert extent(history, 1) == Extent(
        message_id=MessageId("m3"), last=MessageId("m3"), next=MessageId("m2"), beyond=(TurnId("a"),)
    )
    first = extent(history, 1)
    assert first is not None
    assert covered_by(history, first) == ["m1", "m3"]
    plain = [asked(1, "a"), answered(2, "a"), asked(3, "b")]
    assert extent(plain, 5) == Extent(message_id=MessageId("m2"), last=MessageId("m2"), next=MessageId("m3"))


def test_there_is_always_something_left_out() -> None:
    assert extent([], 1) is None
    assert extent([asked(1, "a"), answered(2, "a")], 1) is None
    assert extent([asked(1, "a"), asked(2, "b")], 0) is None


def test_what_has_no_turn_is_covered_only_if_all_of_it_lies_before() -> None:
    history = [asked(1, None), asked(2, "a"), answered(3, None), answered(4, "a"), asked(5, "b")]
    assert ids(by_turn(history)) == [["m1", "m3"], ["m2", "m4"], ["m5"]]
    assert extent(history, 1) is None
    both = extent(history, 2)
    assert both is not None
    assert both.next == "m5"


steps = st.lists(st.tuples(st.sampled_from([None, "a", "b", "c", "d"]), st.booleans()), max_size=14)


@given(steps, st.integers(0, 6))
def test_an_extent_has_whole_exchanges_and_tells_exactly_which(made: list[tuple[str | None, bool]], count: int) -> None:
    history = [(asked if user else answered)(number, turn) for number, (turn, user) in enumerate(made)]
    covered = extent(history, count)
    if covered is None:
        return
    size = size_of(history, covered)
    assert 0 < size <= count
    theirs = {message.id for one in by_turn(history)[:size] for message in one}
    places = {message.id: place for place, message in enumerate(history)}
    rest = [message for message in history if message.id not in theirs]
    assert rest[0].id == covered.next
    told = [
        message for message in history if places[message.id] >= places[covered.next] and message.turn_id not in covered.beyond
    ]
    assert told == rest
    assert places[covered.last] == max(places[one] for one in theirs)
