"""Audit — `/v1/audit`: what was done in a tenant, by whom, and whether it was refused."""

from collections import OrderedDict
from typing import Annotated

from msgspec import Meta

from agentvm.model.base import Record
from agentvm.model.ids import Clock, TenantId
from agentvm.server.http.route import BIG, Ask, Given, Limit, Page, Routes, paged

routes = Routes()

REFUSED_MS = 60_000
MOST_REFUSED = 10_000


class Refusals:
    """Which refusals are worth an entry: one a minute of each actor and action.

    Who may write nothing could else fill the disk by being refused.
    """

    def __init__(self, clock: Clock, *, most: int = MOST_REFUSED) -> None:
        self._clock, self._most = clock, most
        self._entered: OrderedDict[tuple[TenantId, str, str], int] = OrderedDict()

    def enter(self, tenant_id: TenantId, actor: str, action: str) -> bool:
        """Whether this one is to be entered; if so, the next are not for a minute."""
        name, now = (tenant_id, actor, action), self._clock()
        at = self._entered.get(name)
        if at is not None and at <= now < at + REFUSED_MS:
            return False
        self._entered[name] = now
        self._entered.move_to_end(name)
        if len(self._entered) > self._most:
            self._entered.popitem(last=False)
        return True


class AuditGiven(Given):
    """`before` is the `next` of the page before."""

    before: Annotated[int, Meta(ge=0, le=BIG)] | None = None
    limit: Limit = 100
    action: str | None = None


class AuditView(Record):
    number: int
    at: int
    actor: str
    action: str
    target: str
    result: str
    address: str | None = None
    request_id: str | None = None


@routes.add("GET", "/v1/audit", needs=("tenants:admin",), takes=AuditGiven)
async def list_all(ask: Ask[AuditGiven]) -> Page[AuditView]:
    """List the audit log.

    Newest first.
    """
    given = ask.given
    found = await ask.accounts.audit.list(before=given.before, limit=given.limit + 1, action=given.action)
    items = [
        AuditView(
            number=number,
            at=entry.at,
            actor=entry.actor,
            action=entry.action,
            target=entry.target,
            result=entry.result,
            address=entry.address,
            request_id=entry.request_id,
        )
        for number, entry in found
    ]
    return paged(items, given.limit, lambda index: str(items[index].number))
