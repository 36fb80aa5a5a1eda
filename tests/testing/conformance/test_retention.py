"""The suite itself: stores with one planted fault each must not pass."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.testing.conformance.test_readers import Check, is_found, with_tenants

from agentvm.model.ids import SessionId
from agentvm.model.retention import RetentionCutoffs
from agentvm.model.session import Session
from agentvm.storage.retention import NOTHING, OldTurn, SessionPlace, Some, Weight
from agentvm.storage.sql.sessions.retention import RetentionStore
from agentvm.storage.sql.store import Store, TenantStore
from agentvm.testing.conformance import retention as suite
from agentvm.testing.conformance.store import RIVAL

pytestmark = pytest.mark.anyio


class Merciless(RetentionStore):
    async def expiring(self, cut: RetentionCutoffs, after: int = 0, *, limit: int = 100) -> Some:
        return await super().expiring(replace(cut, archived=cut.sessions), after, limit=limit)


class Forgetting(RetentionStore):
    async def clear(self, session_id: SessionId, cut: RetentionCutoffs, now: int) -> Session | None:
        return await super().clear(session_id, replace(cut, sessions=10**9), now)


class Lazy(RetentionStore):
    async def drop_turns(self, place: SessionPlace, turns: Sequence[OldTurn]) -> Weight:
        return NOTHING

    async def drop_rewound(self, place: SessionPlace, before: int, *, limit: int = 500) -> Weight:
        return NOTHING


class Impatient(RetentionStore):
    async def old_turns(self, place: SessionPlace, before: int | None) -> tuple[OldTurn, ...]:
        return await super().old_turns(place, None)


class Elsewhere(RetentionStore):
    def __init__(self, database: object, tenant_id: object) -> None:
        super().__init__(database, RIVAL)  # type: ignore[arg-type]


def of(kind: type[RetentionStore]) -> type[Store]:
    class Tenant(TenantStore):
        def retention(self) -> RetentionStore:
            return kind(self._database, self._tenant_id)

    return with_tenants(Tenant)


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        (Merciless, suite.check_archived_sessions_go_by_a_moment_of_their_own),
        (Forgetting, suite.check_a_default_session_is_emptied),
        (Lazy, suite.check_turns_go_whole_and_the_session_goes_on),
        (Lazy, suite.check_what_was_taken_back_goes_by_when_that_was),
        (Impatient, suite.check_turns_that_lie_between_each_other_are_told_apart),
        (Elsewhere, suite.check_a_tenant_drops_nothing_of_another),
    ],
)
async def test_a_planted_fault_is_found(kind: type[RetentionStore], check: Check) -> None:
    await is_found(of(kind), check)
