import gc

import pytest

from agentvm.errors.bounds import ServerBusy
from agentvm.model.ids import TenantId
from agentvm.sharing.byte_budget import ByteBudget
from agentvm.sharing.response_reservation import ResponseReservation

ACME, BOLT = TenantId("acme"), TenantId("bolt")


def test_room_is_a_tenants_share_until_it_is_released() -> None:
    budget = ByteBudget(100, 60)
    first = ResponseReservation(budget, ACME, 60)
    with pytest.raises(ServerBusy):
        ResponseReservation(budget, ACME, 1)
    second = ResponseReservation(budget, BOLT, 28)
    first.release()
    first.release()
    assert (budget.reserved, budget.reserved_by(BOLT)) == (28, 28)
    second.release()
    assert budget.reserved == 0


def test_room_that_nobody_holds_any_more_is_free() -> None:
    budget = ByteBudget(100, 60)
    room = ResponseReservation(budget, ACME, 60)
    assert budget.reserved == 60
    del room
    gc.collect()
    assert budget.reserved == 0
