"""A byte budget is never exceeded, and one tenant leaves room for the others."""

from hypothesis import example, given
from hypothesis import strategies as st

from agentvm.model.ids import TenantId
from agentvm.sharing.byte_budget import ByteBudget

A, B, C = TenantId("tnt_a"), TenantId("tnt_b"), TenantId("tnt_c")
MIB = 1024 * 1024


def test_a_tenant_that_holds_its_share_is_refused_and_another_finds_room() -> None:
    budget = ByteBudget(total_bytes=100, share_bytes=60)
    assert budget.reserve(A, 60)
    assert not budget.reserve(A, 1)
    assert budget.reserve(B, 28)
    assert not budget.reserve(B, 1)


def test_released_bytes_can_be_reserved_again() -> None:
    budget = ByteBudget(total_bytes=10)
    assert budget.reserve(None, budget.share_bytes)
    budget.release(None, budget.share_bytes)
    assert budget.reserve(A, budget.share_bytes)


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


@given(st.lists(st.tuples(st.sampled_from([A, B]), st.integers(0, 130 * MIB), st.booleans())))
@example([(A, 128 * MIB, False), (B, 128 * MIB, False)])
@example([(A, 128 * MIB, False), (B, 96 * MIB, False), (B, 16 * MIB, False)])
@example([(A, 128 * MIB, False), (B, 16 * MIB, False), (B, 80 * MIB, False), (B, 1, False)])
def test_whatever_two_tenants_hold_a_third_finds_room(steps: list[tuple[TenantId, int, bool]]) -> None:
    budget, held = ByteBudget(), list[tuple[TenantId, int]]()
    for tenant_id, size, releasing in steps:
        if releasing and held:
            budget.release(*held.pop(0))
        elif budget.reserve(tenant_id, size):
            held.append((tenant_id, size))
        assert budget.reserve(C, 8 * MIB)
        budget.release(C, 8 * MIB)


def test_two_tenants_that_reserve_in_small_pieces_leave_room_for_a_third() -> None:
    budget = ByteBudget()
    for _ in range(256):
        budget.reserve(A, MIB)
        budget.reserve(B, MIB)
    assert not budget.reserve(A, 1)
    assert not budget.reserve(B, 1)
    assert budget.reserve(C, 8 * MIB)
