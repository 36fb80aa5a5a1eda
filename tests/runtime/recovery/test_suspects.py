"""Which suspects are begun together, and who is found to be to blame, however many there are and wherever it stands."""

import math
from collections.abc import Set as AbstractSet

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from agentvm.model.ids import ContainerId, ImageId, MessageId, SessionId, TurnId
from agentvm.model.turn import Turn
from agentvm.runtime.recovery.suspects import MORE_ATTEMPTS_MAX, is_to_blame, next_group

LIMIT = 3


def turn(number: int, *, attempts: int = LIMIT - 1, alongside: int | None = None) -> Turn:
    return Turn(
        turn_id=TurnId(f"turn_{number}"),
        container_id=ContainerId("c1"),
        image_id=ImageId("i"),
        session_id=SessionId(f"s{number}"),
        message_id=MessageId("m"),
        accepted_at=1,
        attempts=attempts,
        alongside=alongside,
    )


def same(one: Turn) -> Turn:
    return one


def crash(rows: dict[str, Turn], deadly: set[str]) -> tuple[AbstractSet[str], bool]:
    """One start of a server: who is set aside, and whether it died. Who ends is no longer in `rows`."""
    aside = {one.turn_id for one in rows.values() if is_to_blame(one, one.attempts + 1, LIMIT)}
    waiting = [rows[name] for name in rows if name not in aside]
    while waiting:
        group = next_group(waiting, same)
        waiting = [one for one in waiting if one not in group]
        for one in group:
            rows[one.turn_id] = structs.replace(one, attempts=one.attempts + 1, alongside=len(group))
        if any(one.turn_id in deadly for one in group):
            return aside, True
        for one in group:
            del rows[one.turn_id]
    return aside, False


@given(st.integers(1, 300), st.data())
def test_who_kills_the_server_is_found_in_few_crashes_and_all_others_end(number: int, data: st.DataObject) -> None:
    deadly = {f"turn_{data.draw(st.integers(0, number - 1))}"}
    rows: dict[str, Turn] = {one.turn_id: one for one in (turn(each) for each in range(number))}
    crashes, dies = 0, True
    aside: AbstractSet[str] = set()
    while dies:
        aside, dies = crash(rows, deadly)
        crashes += dies
    assert aside == deadly
    assert set(rows) == deadly
    assert crashes <= math.ceil(math.log2(max(2, number))) + 1


@given(st.integers(2, 40), st.data())
def test_several_that_kill_the_server_are_all_found_and_the_others_end(number: int, data: st.DataObject) -> None:
    deadly = {f"turn_{each}" for each in data.draw(st.sets(st.integers(0, number - 1), min_size=1, max_size=4))}
    rows: dict[str, Turn] = {one.turn_id: one for one in (turn(each) for each in range(number))}
    dies, starts = True, 0
    aside: AbstractSet[str] = set()
    while dies:
        aside, dies = crash(rows, deadly)
        starts += 1
        assert starts <= len(deadly) * (math.ceil(math.log2(number)) + 2)
    assert aside == deadly == set(rows)


def test_many_suspects_are_begun_at_once_and_two_one_after_the_other() -> None:
    assert len(next_group([turn(number) for number in range(8)], same)) == 8
    assert len(next_group([turn(number) for number in range(2)], same)) == 1
    assert next_group([], same) == []


def test_the_halves_of_a_group_that_died_come_before_those_who_were_not_begun() -> None:
    waiting = [*(turn(number) for number in range(5)), *(turn(number, alongside=4) for number in range(5, 9))]
    group = next_group(waiting, same)
    assert len(group) == 2
    assert {one.alongside for one in group} == {4}


def test_the_order_within_a_group_is_another_one_at_each_attempt() -> None:
    def first(attempts: int) -> str:
        waiting = [turn(number, attempts=attempts, alongside=2) for number in range(2)]
        return next_group(waiting, same)[0].turn_id

    assert {first(attempts) for attempts in range(20)} == {"turn_0", "turn_1"}


@pytest.mark.parametrize(
    ("attempts", "alongside", "blamed"),
    [
        (LIMIT - 1, None, False),
        (LIMIT, 1, True),
        # As an earlier release has left it.
        (LIMIT, None, True),
        (LIMIT, 2, False),
        (LIMIT + 5, 2, False),
        # Whoever it was: a server that dies over and over is worth nothing to anybody.
        (LIMIT + MORE_ATTEMPTS_MAX, 2, True),
    ],
)
def test_who_died_alone_or_far_too_often_is_to_blame(attempts: int, alongside: int | None, blamed: bool) -> None:
    assert is_to_blame(turn(1, attempts=attempts, alongside=alongside), attempts + 1, LIMIT) is blamed
