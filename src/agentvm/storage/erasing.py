"""Erasing — the data of a deleted user, container or tenant: counted before, then erased in small commits.

A deletion is one short commit: from then on the item cannot be found, and nothing can be added to it. That commit also notes
an erasure, which lasts until nothing of the thing is left, neither as rows nor as traces in the files of the database. The
server advances pending erasures, also after a restart. The ledger and the audit log stay; in the ledger the names of
containers that were erased are replaced. Conformance: `tests.conformance.erasing`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from agentvm.model.ids import ContainerId, SessionId, TenantId, UserId

Breathe = Callable[[], Awaitable[None]]
"""Waited for between two steps, so that others are stored in between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """A container, the marks of a user in the containers of others, the words of a deleted `target`, or else a tenant."""

    erasure_id: int
    tenant_id: TenantId
    container_id: ContainerId | None
    user_id: UserId | None
    target: str | None = None
    """A collection, as `collections/handbook`, or the id of a resource."""
    asked_at: int
    emptied: bool
    """Whether the rows are gone; traces may be left in the files."""


@dataclass(frozen=True, slots=True)
class Advanced:
    """The result of one step: whether there are more rows, which sessions were deleted, and how many messages."""

    more: bool
    gone: tuple[SessionId, ...] = ()
    messages: int = 0
