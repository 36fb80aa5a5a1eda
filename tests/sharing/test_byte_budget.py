"""A byte budget is never exceeded, and one tenant leaves room for the others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.errors.bounds import ServerBusy
from agentvm.model.ids import TenantId
from agentvm.sharing.byte_budget import ByteBudget

A, B = TenantId("tnt_a"), TenantId("tnt_b")


def test_a_tenant_that_holds_its_share_is_refused_and_another_finds_room() -> None:
    budget = ByteBudget(total_bytes=100, share_bytes=60)
    assert budget.reserve(A, 60)
    assert not budget.reserve(A, 1)
    assert budget.reserve(B, 40)
    assert not budget.reserve(B, 1)


def test_released_bytes_can_be_reserved_again() -> None:
    budget = ByteBudget(total_bytes=10)
    assert budget.reserve(None, 10)
    budget.release(None, 10)
    assert budget.reserve(A, 10)


def test_a_block_that_finds_no_room_is_refused_and_reserves_nothing() -> None:
    budget = ByteBudget(total_bytes=10)
    with budget.holding(A, 8), pytest.raises(ServerBusy), budget.holding(B, 3):
        pass
    assert budget.reserved == 0


def test_a_block_that_fails_releases_its_bytes() -> None:
    budget = ByteBudget(total_bytes=10)
    with pytest.raises(ValueError, match="broken"), budget.holding(A, 10):
        raise ValueError("broken")
    assert (budget.reserved, budget.reserved_by(A)) == (0, 0)


@given(st.lists(st.tuples(st.sampled_from([A, B, None]), st.integers(0, 50), st.booleans())))
def test_the_sum_of_reservations_is_what_the_budget_says(steps: list[tuple[TenantId | None, int, bool]]) -> None:
    budget, held = ByteBudget(total_bytes=100, share_bytes=70), list[tuple[TenantId | None, int]]()
    for tenant_id, size, releasing in steps:
        if releasing and held:
            budget.release(*held.pop())
        elif budget.reserve(tenant_id, size):
            held.append((tenant_id, size))
        assert budget.reserved == sum(size for _, size in held) <= 100
        for tenant in (A, B, None):
            assert budget.reserved_by(tenant) == sum(size for owner, size in held if owner == tenant) <= 70
