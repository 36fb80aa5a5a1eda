"""A connection's charge follows what it holds, and is given back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.model.ids import TenantId
from agentvm.sharing.byte_budget import ByteBudget
from agentvm.sharing.connection_reservation import FREE_BYTES, STEP_BYTES, ConnectionReservation

A = TenantId("tnt_a")


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
