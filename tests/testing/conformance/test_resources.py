"""The suite itself: stores with one planted fault each must not pass. So for its two neighbours about search and life."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import anyio
import pytest
from msgspec import structs

from agentvm.model.ids import TenantId
from agentvm.model.resource import ResourceId, ResourceVersion, VersionId
from agentvm.storage.engine import open_store
from agentvm.storage.resources import Dependents, Node, Publication, Published, VersionHistory
from agentvm.storage.sql.resources import ResourceStore
from agentvm.storage.sql.store import Store
from agentvm.testing.conformance import resources as suite

pytestmark = pytest.mark.anyio

Check = Callable[[Store], Awaitable[None]]


def planted(of: type[ResourceStore]) -> type[Store]:
    """A store whose resources are of the given class."""

    class Faulty(Store):
        def resources(self, tenant_id: TenantId) -> ResourceStore:
            return of(self._database, tenant_id)

    return Faulty


async def is_seen(of: type[ResourceStore], check: Check) -> None:
    with anyio.fail_after(10):
        async with open_store(None) as sound:
            with pytest.raises(AssertionError):
                await check(planted(of)(sound._database))


class Blind(ResourceStore):
    """Takes all tenants for one."""

    def __init__(self, database: object, tenant_id: TenantId) -> None:
        super().__init__(database, TenantId("everybody"))  # type: ignore[arg-type]


class OneByOne(ResourceStore):
    async def publish(self, publications: Sequence[Publication]) -> tuple[Published, ...]:
        if any(isinstance(each.target, int) for one in publications for each in one.dependencies):
            return await super().publish(publications)
        return tuple([(await super(OneByOne, self).publish([each]))[0] for each in publications])


class Rash(ResourceStore):
    async def publish(self, publications: Sequence[Publication]) -> tuple[Published, ...]:
        return await super().publish([replace(each, is_new=False, expected=None) for each in publications])


class Rootless(ResourceStore):
    async def publish(self, publications: Sequence[Publication]) -> tuple[Published, ...]:
        return await super().publish([replace(each, dependencies=()) for each in publications])


class Unranked(ResourceStore):
    async def history(self, resource_id: ResourceId, only: str | None = None) -> VersionHistory:
        history = await super().history(resource_id, only)
        return replace(history, versions=tuple(sorted(history.versions, key=lambda each: each.version)))


class Final(ResourceStore):
    async def yank(self, resource_id: ResourceId, version: str, at: int | None, now: int) -> ResourceVersion | None:
        found = await super().yank(resource_id, version, at or 1, now)
        return None if found is None else structs.replace(found, yanked_at=at)


class Unbounded(ResourceStore):
    async def closure(self, version_id: VersionId, *, limit: int) -> dict[VersionId, Node]:
        return await super().closure(version_id, limit=99)


class Telling(ResourceStore):
    async def dependents(self, resource_id: ResourceId) -> Dependents:
        found = await super().dependents(resource_id)
        return replace(found, foreign=0)


class Trusting(ResourceStore):
    async def blob_size(self, digest: str) -> int | None:
        return 6


class Stuck(ResourceStore):
    async def point(self, resource_id: ResourceId, tag: str, version: str | None, now: int) -> bool:
        return version is not None and await super().point(resource_id, tag, version, now)


@pytest.mark.parametrize(
    ("faulty", "check"),
    [
        (Blind, suite.check_a_name_is_looked_for_at_home_then_at_the_server),
        (Blind, suite.check_only_its_owner_changes_a_resource),
        (OneByOne, suite.check_a_batch_is_published_together_or_not_at_all),
        (Rash, suite.check_a_publisher_can_say_what_it_has_seen),
        (Rootless, suite.check_a_resource_comes_back_as_it_was_published),
        (Rootless, suite.check_what_is_referred_to_must_be_there_and_in_view),
        (Rootless, suite.check_floating_references_never_lead_back),
        (Rootless, suite.check_a_batch_may_refer_to_itself_but_not_in_a_ring),
        (Unranked, suite.check_the_latest_is_the_highest_and_no_prerelease),
        (Final, suite.check_a_withdrawn_version_is_only_kept_for_who_names_it),
        (Unbounded, suite.check_a_closure_has_every_version_once_and_a_bound),
        (Telling, suite.check_it_is_known_who_depends_on_a_resource),
        (Trusting, suite.check_a_digest_alone_opens_nothing),
        (Trusting, suite.check_nothing_is_there_before_it_is_published),
        (Stuck, suite.check_a_tag_points_where_its_owner_says),
    ],
)
async def test_a_planted_fault_is_seen(faulty: type[ResourceStore], check: Check) -> None:
    await is_seen(faulty, check)


def test_every_check_is_in_the_list() -> None:
    assert [check.__name__ for check in suite.CHECKS] == [name for name in vars(suite) if name.startswith("check_")]
