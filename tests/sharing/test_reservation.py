"""Reservations follow what is held, and are released."""

import gc

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.errors.bounds import ServerBusy
from agentvm.model.ids import TenantId
from agentvm.sharing import reservation
from agentvm.sharing.byte_budget import ByteBudget
from agentvm.sharing.reservation import (
    FREE_BYTES,
    STEP_BYTES,
    ConnectionReservation,
    RequestReservation,
    ResponseReservation,
)

A, B = TenantId("tnt_a"), TenantId("tnt_b")


def test_little_is_free_and_more_is_reserved_in_steps() -> None:
    budget = ByteBudget(total_bytes=10 * STEP_BYTES)
    charge = ConnectionReservation(budget, A)
    assert charge.hold(FREE_BYTES)
    assert budget.reserved == 0
    assert charge.hold(FREE_BYTES + 1)
    assert charge.hold(STEP_BYTES)
    assert budget.reserved_by(A) == STEP_BYTES
    assert charge.hold(STEP_BYTES + 1)
    assert budget.reserved_by(A) == 2 * STEP_BYTES
    assert charge.hold(0)
    assert budget.reserved == 0


def test_a_charge_without_room_stays_as_it_was() -> None:
    budget = ByteBudget(total_bytes=2 * STEP_BYTES)
    charge = ConnectionReservation(budget, A)
    assert charge.hold(STEP_BYTES)
    assert not charge.hold(3 * STEP_BYTES)
    assert (charge.held, budget.reserved) == (STEP_BYTES, STEP_BYTES)


def test_a_charge_moves_to_the_tenant_once_it_is_known() -> None:
    budget = ByteBudget(total_bytes=4 * STEP_BYTES, share_bytes=2 * STEP_BYTES)
    charge = ConnectionReservation(budget, None)
    assert charge.hold(STEP_BYTES)
    assert charge.move(A)
    assert (budget.reserved_by(None), budget.reserved_by(A)) == (0, STEP_BYTES)


def test_a_charge_that_its_tenant_has_no_room_for_is_given_back() -> None:
    budget = ByteBudget(total_bytes=4 * STEP_BYTES, share_bytes=2 * STEP_BYTES)
    assert budget.reserve(A, 2 * STEP_BYTES)
    charge = ConnectionReservation(budget, None)
    assert charge.hold(STEP_BYTES)
    assert not charge.move(A)
    assert (charge.held, budget.reserved) == (0, 2 * STEP_BYTES)


@pytest.mark.parametrize("total", [STEP_BYTES, 5 * STEP_BYTES])
@given(sizes=st.lists(st.integers(0, 8 * STEP_BYTES), max_size=30))
def test_the_budget_holds_what_the_charge_holds(total: int, sizes: list[int]) -> None:
    budget = ByteBudget(total_bytes=total)
    charge = ConnectionReservation(budget, A)
    for size in sizes:
        if charge.hold(size) and size > FREE_BYTES:
            assert charge.held >= size
        assert budget.reserved == charge.held <= total
    assert charge.hold(0)
    assert budget.reserved == 0


async def test_a_reservation_grows_and_is_given_back() -> None:
    budget = ByteBudget(total_bytes=100)
    with RequestReservation(budget, A) as room:
        for size, held in ((40, 40), (70, 70), (10, 70)):
            await room.grow(size)
            assert (room.held, budget.reserved_by(A)) == (held, held)
    assert budget.reserved == 0


async def test_who_finds_no_room_waits_for_those_before() -> None:
    budget = ByteBudget(total_bytes=100)
    with anyio.fail_after(60), RequestReservation(budget, A) as first, RequestReservation(budget, B) as second:
        await first.grow(80)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(second.grow, 50)
            await anyio.wait_all_tasks_blocked()
            assert second.held == 0
            first.__exit__()
        assert second.held == 50
    assert budget.reserved == 0


async def test_who_finds_no_room_for_long_is_refused_and_holds_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reservation, "WAIT_SECONDS", 0.01)
    budget = ByteBudget(total_bytes=100)
    with RequestReservation(budget, A) as room:
        await room.grow(60)
        with pytest.raises(ServerBusy):
            await room.grow(101)
        assert budget.reserved == 60
    assert budget.reserved == 0


def test_room_is_a_tenants_share_until_it_is_released() -> None:
    budget = ByteBudget(100, 60)
    first = ResponseReservation(budget, A, 60)
    with pytest.raises(ServerBusy):
        ResponseReservation(budget, A, 1)
    second = ResponseReservation(budget, B, 28)
    first.release()
    first.release()
    assert (budget.reserved, budget.reserved_by(B)) == (28, 28)
    second.release()
    assert budget.reserved == 0


def test_room_that_nobody_holds_any_more_is_free() -> None:
    budget = ByteBudget(100, 60)
    room = ResponseReservation(budget, A, 60)
    assert budget.reserved == 60
    del room
    gc.collect()
    assert budget.reserved == 0
