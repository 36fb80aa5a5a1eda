import secrets

import pytest
from tests.tenants.fakes import FakeClock

from agentvm.errors import Refused
from agentvm.model.ids import TenantId, UserId
from agentvm.model.principal import Principal
from agentvm.tenants.tickets import PREFIX, TICKET_AGE_MS, Tickets


def principal(tenant: str = "t") -> Principal:
    return Principal(tenant_id=TenantId(tenant), user_id=UserId("u"))


def make(clock: FakeClock | None = None, *, most: int = 10, of_tenant: int = 5) -> Tickets:
    return Tickets(b"p" * 32, clock or FakeClock(), secrets.randbits, most=most, of_tenant=of_tenant)


def test_a_ticket_is_good_once() -> None:
    tickets = make()
    token = tickets.issue(principal())
    assert token.startswith(PREFIX)
    assert tickets.redeem(token) == principal()
    assert tickets.redeem(token) is None


def test_a_ticket_is_good_for_a_minute() -> None:
    clock = FakeClock()
    tickets = make(clock)
    in_time, late = tickets.issue(principal()), tickets.issue(principal())
    clock.now += TICKET_AGE_MS - 1
    assert tickets.redeem(in_time) is not None
    clock.now += 1
    assert tickets.redeem(late) is None
    assert TICKET_AGE_MS == 60_000


@pytest.mark.parametrize("token", ["", PREFIX, PREFIX + "x" * 32, "\ud800"])
def test_what_was_not_given_out_is_nobodys(token: str) -> None:
    tickets = make()
    tickets.issue(principal())
    assert tickets.redeem(token) is None
    assert len(tickets) == 1


def test_who_fills_their_part_is_refused_and_pushes_nobody_out() -> None:
    clock = FakeClock()
    tickets = make(clock)
    others = tickets.issue(principal("other"))
    for _ in range(5):
        tickets.issue(principal())
    with pytest.raises(Refused, match="wait a minute"):
        tickets.issue(principal())
    assert tickets.redeem(others) is not None
    clock.now += TICKET_AGE_MS
    tickets.issue(principal())
    assert len(tickets) == 1


def test_the_table_is_bounded_in_all() -> None:
    tickets = make(most=3)
    for number in range(3):
        tickets.issue(principal(f"t{number}"))
    with pytest.raises(Refused):
        tickets.issue(principal("another"))
    assert len(tickets) == 3


def test_the_tickets_of_those_who_are_named_end() -> None:
    tickets = make()
    gone, stays = tickets.issue(principal("a")), tickets.issue(principal("b"))
    tickets.drop(lambda one: one.tenant_id == "a")
    assert tickets.redeem(gone) is None
    assert tickets.redeem(stays) is not None


def test_no_ticket_can_be_read_from_the_table() -> None:
    tickets = make()
    token = tickets.issue(principal())
    assert token.removeprefix(PREFIX) not in repr(vars(tickets))
