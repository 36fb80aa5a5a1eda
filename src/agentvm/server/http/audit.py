"""Audit — `/v1/audit`: what was done in a tenant, by whom, and whether it was refused."""

from typing import Annotated

from msgspec import Meta

from agentvm.model.base import Record
from agentvm.server.http.route import BIG, Ask, Given, Limit, Page, Routes, paged

routes = Routes()


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
