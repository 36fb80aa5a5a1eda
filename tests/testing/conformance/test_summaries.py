"""The suite itself: stores with one planted fault each must not pass."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import anyio
import pytest
from msgspec import structs

from agentvm.model.exchange import Extent
from agentvm.model.ids import ContainerId, SessionId
from agentvm.model.refused import RefusedPart
from agentvm.model.session import Summary
from agentvm.storage.base import WHOLE, ReadingLimits, Recalled
from agentvm.storage.engine import open_store
from agentvm.storage.sql.container import ContainerStore
from agentvm.storage.sql.log import LogStore
from agentvm.storage.sql.store import Store, TenantStore
from agentvm.testing.conformance import summaries as suite

pytestmark = pytest.mark.anyio

Check = Callable[[Store], Awaitable[None]]


class Restless(LogStore):
    async def recall(self, reading: ReadingLimits = WHOLE) -> Recalled:
        return replace(await super().recall(reading), running=frozenset())


class Careless(LogStore):
    """Forgets who paid, and whose queued messages it covers."""

    async def add_summary(self, summary: Summary, covered: Extent, recalled: Recalled) -> bool:
        return await super().add_summary(structs.replace(summary, user_id=None), replace(covered, beyond=()), recalled)


class Trusting(LogStore):
    """Stores whatever it is given, as if it had been recalled just now."""

    async def add_summary(self, summary: Summary, covered: Extent, recalled: Recalled) -> bool:
        return await super().add_summary(summary, covered, await self.recall())


class Obliging(LogStore):
    async def add_summary(self, summary: Summary, covered: Extent, recalled: Recalled) -> bool:
        await super().add_summary(summary, covered, recalled)
        return True


class Deaf(LogStore):
    """Takes what was said after a summary for covered."""

    async def recall(self, reading: ReadingLimits = WHOLE) -> Recalled:
        found = await super().recall(reading)
        return found if found.summary is None else replace(found, messages=())


class Stale(LogStore):
    """Remembers a summary that is gone."""

    last: Recalled = Recalled()

    async def recall(self, reading: ReadingLimits = WHOLE) -> Recalled:
        found = await super().recall(reading)
        if found.summary is None and Stale.last.summary is not None:
            return Stale.last
        Stale.last = found
        return found


class Unbounded(LogStore):
    """Reads all there is, whatever is allowed."""

    async def recall(self, reading: ReadingLimits = WHOLE) -> Recalled:
        return await super().recall()


class Forgiving(LogStore):
    async def add_refused(self, parts: Sequence[RefusedPart], provider: str, now: int) -> None:
        pass


def of(kind: type[LogStore]) -> type[Store]:
    class Container(ContainerStore):
        def log(self, session_id: SessionId) -> LogStore:
            return kind(self._database, self._key, session_id)

    class Tenant(TenantStore):
        def container(self, container_id: ContainerId) -> ContainerStore:
            return Container(self._database, self._tenant_id, container_id)

    class Faulty(Store):
        def tenant(self, tenant_id: object) -> TenantStore:
            return Tenant(self._database, tenant_id)  # type: ignore[arg-type]

    return Faulty


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        (Unbounded, suite.check_no_more_is_recalled_than_is_allowed),
        (Unbounded, suite.check_a_recall_without_summaries_has_what_they_cover),
        (Forgiving, suite.check_what_a_provider_refuses_is_noted_once_and_of_one_session),
        (Restless, suite.check_without_a_summary_all_is_recalled),
        (Careless, suite.check_a_summary_comes_back_as_it_was_with_what_it_does_not_cover),
        (Careless, suite.check_a_nul_in_a_text_is_replaced_and_in_a_message_kept),
        (Careless, suite.check_a_message_that_was_queued_is_not_covered_by_the_turn_ahead),
        (Stale, suite.check_a_rewind_takes_the_summaries_of_what_it_takes_back),
        (Obliging, suite.check_none_is_stored_of_what_was_taken_back_meanwhile),
        (Obliging, suite.check_none_is_stored_of_what_was_too_old_meanwhile),
        (Deaf, suite.check_what_is_said_in_the_place_of_what_is_gone_is_told),
        (Trusting, suite.check_of_two_at_the_same_time_one_is_stored),
        (Obliging, suite.check_a_session_that_is_deleted_or_gone_takes_none),
        (Obliging, suite.check_summaries_of_others_are_not_there),
    ],
)
async def test_a_planted_fault_is_found(kind: type[LogStore], check: Check) -> None:
    with anyio.fail_after(10), pytest.raises(AssertionError):
        async with open_store(None) as store:
            await check(of(kind)(store._database))


def test_every_check_is_in_the_suite() -> None:
    assert [check.__name__ for check in suite.CHECKS] == [name for name in vars(suite) if name.startswith("check_")]
