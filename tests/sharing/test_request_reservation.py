"""A request's reservation grows as it reads more, waits a while for room, and is given back."""

import anyio
import pytest

from agentvm.errors.bounds import ServerBusy
from agentvm.model.ids import TenantId
from agentvm.sharing import request_reservation
from agentvm.sharing.byte_budget import ByteBudget
from agentvm.sharing.request_reservation import RequestReservation

pytestmark = pytest.mark.anyio

A, B = TenantId("tnt_a"), TenantId("tnt_b")


async def test_a_reservation_grows_and_is_given_back() -> None:
    budget = ByteBudget(total_bytes=100)
    with RequestReservation(budget, A) as room:
        for size, held in ((40, 40), (70, 70), (10, 70)):
            await room.grow(size)
            assert (room.held, budget.reserved_by(A)) == (held, held)
    assert budget.reserved == 0


async def test_who_finds_no_room_waits_for_those_before() -> None:
    budget = ByteBudget(total_bytes=100)
    with anyio.fail_after(5), RequestReservation(budget, A) as first, RequestReservation(budget, B) as second:
        await first.grow(80)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(second.grow, 50)
            await anyio.wait_all_tasks_blocked()
            assert second.held == 0
            first.__exit__()
        assert second.held == 50
    assert budget.reserved == 0


async def test_who_finds_no_room_for_long_is_refused_and_holds_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_reservation, "WAIT_SECONDS", 0.01)
    budget = ByteBudget(total_bytes=100)
    with RequestReservation(budget, A) as room:
        await room.grow(60)
        with pytest.raises(ServerBusy):
            await room.grow(101)
        assert budget.reserved == 60
    assert budget.reserved == 0
