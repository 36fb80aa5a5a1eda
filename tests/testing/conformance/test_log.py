"""The suite itself: stores with one planted fault each must not pass."""

from collections.abc import Awaitable, Callable, Sequence

import anyio
import pytest

from agentvm.model.ids import ContainerId, SessionId, TenantId
from agentvm.model.message import Message
from agentvm.storage.base import Committed, SessionWrite
from agentvm.storage.engine import open_store
from agentvm.storage.sql.container import ContainerStore
from agentvm.storage.sql.store import Store, TenantStore
from agentvm.testing.conformance import log as suite

pytestmark = pytest.mark.anyio

Check = Callable[[Store], Awaitable[None]]


class Forgetful(Store):
    async def trim_log(self, made_before: int, most_bytes: int) -> int:
        def work(connection: object) -> int:
            connection.execute("DELETE FROM log")  # type: ignore[attr-defined]
            return 1

        return await self._database.write(work)


class Halved(Store):
    async def commit(self, writes: Sequence[SessionWrite], *, entry: bytes | None = None, forget: int = 0) -> Committed:
        await super().commit(writes[:1])
        return await super().commit(writes[1:], entry=entry, forget=forget)


class Hoarding(Store):
    async def commit(self, writes: Sequence[SessionWrite], *, entry: bytes | None = None, forget: int = 0) -> Committed:
        return await super().commit(writes, entry=entry)


class Unbounded(Store):
    def tenant(self, tenant_id: TenantId) -> TenantStore:
        return UnboundedTenant(self._database, tenant_id)


class UnboundedTenant(TenantStore):
    def container(self, container_id: ContainerId) -> ContainerStore:
        return UnboundedContainer(self._database, self._tenant_id, container_id)


class UnboundedContainer(ContainerStore):
    async def list_recent_messages(
        self, session_id: SessionId, max_bytes: int, *, limit: int | None = None, strict: bool = False
    ) -> tuple[tuple[Message, ...], bool]:
        return await self.list_messages(session_id), False


class Unpaged(Store):
    async def read_journal(self, after: int = 0, max_bytes: int | None = None) -> tuple[tuple[int, bytes], ...]:
        return await super().read_journal(after)


@pytest.mark.parametrize(
    ("faulty", "check"),
    [
        (Unpaged, suite.check_the_journal_is_read_page_by_page),
        (Unbounded, suite.check_recent_messages_stop_at_the_byte_budget),
        (Forgetful, suite.check_a_trimmed_log_still_knows_how_far_it_has_counted),
        (Halved, suite.check_a_commit_that_fails_leaves_nothing_behind),
        (Hoarding, suite.check_the_journal_keeps_what_is_not_forgotten),
    ],
)
async def test_a_planted_fault_is_found(faulty: type[Store], check: Check) -> None:
    with anyio.fail_after(10), pytest.raises(AssertionError):
        async with open_store(None) as store:
            await check(faulty(store._database))


def test_every_check_is_in_the_suite() -> None:
    assert [check.__name__ for check in suite.CHECKS] == [name for name in vars(suite) if name.startswith("check_")]
