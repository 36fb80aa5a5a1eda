"""The suite itself: stores with one planted fault each must not pass."""

from collections.abc import Sequence

import pytest
from tests.testing.conformance.test_readers import Check, is_found, with_tenants

from agentvm.model.ids import ContainerId, SessionId
from agentvm.model.session import Draft, Drafted
from agentvm.storage.sql.sessions.drafts import DraftStore
from agentvm.storage.sql.store import Store, TenantStore
from agentvm.testing.conformance import drafts as suite

pytestmark = pytest.mark.anyio


class OfAll(DraftStore):
    def __init__(self, database: object, tenant_id: object, author: object, containers: object) -> None:
        super().__init__(database, tenant_id, "", containers)  # type: ignore[arg-type]


class OneDevice(DraftStore):
    async def save(
        self, session_id: SessionId, device: str, text: str, now: int, *, if_updated_at: int | None = None
    ) -> Drafted | None:
        return await super().save(session_id, "", text, now, if_updated_at=if_updated_at)


class Overwriting(DraftStore):
    async def save(
        self, session_id: SessionId, device: str, text: str, now: int, *, if_updated_at: int | None = None
    ) -> Drafted | None:
        return await super().save(session_id, device, text, now)


class OldestFirst(DraftStore):
    async def list_all(self, *, limit: int = 50) -> tuple[Draft, ...]:
        return tuple(reversed(await super().list_all(limit=limit)))


def faulty(kind: type[DraftStore]) -> type[Store]:
    class Tenant(TenantStore):
        def drafts(self, author: str, containers: Sequence[ContainerId] | None) -> DraftStore:
            return kind(self._database, self._tenant_id, author, containers)

    return with_tenants(Tenant)


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        (OfAll, suite.check_drafts_are_their_authors_alone),
        (OfAll, suite.check_drafts_go_with_their_session_and_their_author),
        (OneDevice, suite.check_each_device_has_a_draft_of_its_own),
        (Overwriting, suite.check_a_draft_is_saved_only_if_it_is_as_it_was_seen),
        (OldestFirst, suite.check_drafts_are_listed_over_all_sessions),
    ],
)
async def test_a_planted_fault_is_found(kind: type[DraftStore], check: Check) -> None:
    await is_found(faulty(kind), check)
