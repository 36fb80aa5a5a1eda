"""Erasures — `/v1/erasures`: what was deleted and is still being erased."""

from agentvm.model.base import Record
from agentvm.model.ids import ContainerId, TenantId, UserId
from agentvm.server.http.route import Ask, Nothing, Page, Routes

routes = Routes()

LOOKING = ("system:admin", "tenants:admin")


class ErasureView(Record):
    """A container, what a user has left in those of others, or else a tenant.

    When it is `emptied` its rows are gone, and traces may be left in the files of the database.
    """

    tenant_id: TenantId
    container_id: ContainerId | None = None
    user_id: UserId | None = None
    asked_at: int
    emptied: bool


@routes.add("GET", "/v1/erasures", needs=LOOKING, takes=Nothing)
async def list_all(ask: Ask[Nothing]) -> Page[ErasureView]:
    """List what is being erased.

    The oldest first; of the whole server for its operator, deleted tenants too. What has been erased is not in the list.
    """
    every = ask.principal.may("system:admin") and not ask.named
    return Page(
        items=[
            ErasureView(
                tenant_id=one.tenant_id,
                container_id=one.container_id,
                user_id=one.user_id,
                asked_at=one.asked_at,
                emptied=one.emptied,
            )
            for one in await ask.tenancy.store.erasing.pending()
            if (every or one.tenant_id == ask.tenant_id)
            and (one.container_id is None or ask.principal.reaches(one.container_id))
        ]
    )
