"""The suite itself: stores with one planted fault each must not pass."""

import anyio
import pytest
from msgspec import structs
from tests.testing.conformance.test_accounts import planted as planted_account
from tests.testing.conformance.test_accounts import with_directory
from tests.testing.conformance.test_resources import Check, planted

from agentvm.model.ids import ContainerId, TenantId
from agentvm.model.image import Image
from agentvm.model.resource import Resource, ResourceId, ResourceType, VersionId
from agentvm.model.session import Session
from agentvm.storage.engine import open_store
from agentvm.storage.resources import Changes
from agentvm.storage.sql.accounts.directory import Directory
from agentvm.storage.sql.accounts.quotas import QuotaStore
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.container import ContainerStore
from agentvm.storage.sql.resources import ResourceStore
from agentvm.storage.sql.store import Store, TenantStore
from agentvm.testing.conformance import resource_life as suite

pytestmark = pytest.mark.anyio


class Careless(ResourceStore):
    async def change(self, resource_id: ResourceId, changes: Changes, now: int) -> Resource | None:
        def write(connection: Connection) -> None:
            connection.execute("UPDATE resources SET visibility = ? WHERE resource_id = ?", (changes.visibility, resource_id))
            connection.execute("UPDATE resource_versions SET is_open = 1")

        await self._database.write(write)
        return await self.get(resource_id)


class Forgetful(ResourceStore):
    async def find_locked(self, kind: ResourceType, name: str, owner: str | None, digest: str) -> VersionId | None:
        return None


class Ruthless(ResourceStore):
    async def delete(self, resource_id: ResourceId, *, force: bool, now: int) -> bool:
        return await super().delete(resource_id, force=True, now=now)


class Timeless(ResourceStore):
    async def delete(self, resource_id: ResourceId, *, force: bool, now: int) -> bool:
        return await super().delete(resource_id, force=force, now=-suite.MONTH_MS)


class Hasty(Store):
    async def collect(self, now: int, *, grace: int, attachment_grace: int | None = None) -> int:
        return await super().collect(now, grace=0) + await super().collect(now, grace=0)


class Hoarding(Store):
    async def collect(self, now: int, *, grace: int, attachment_grace: int | None = None) -> int:
        return 0


class Unlocked(Store):
    def tenant(self, tenant_id: TenantId) -> TenantStore:
        class Container(ContainerStore):
            async def add_image(self, image: Image, default_session: Session) -> None:
                await super().add_image(structs.replace(image, lock=()), default_session)

            async def rebuild_image(self, image: Image) -> bool:
                return await self.get_image(image.image_id) is not None

        class Tenant(TenantStore):
            def container(self, container_id: ContainerId) -> ContainerStore:
                return Container(self._database, self._tenant_id, container_id)

        return Tenant(self._database, tenant_id)


class Leaving(Directory):
    async def delete_tenant(self, tenant_id: TenantId, now: int) -> bool:
        def write(connection: Connection) -> bool:
            return bool(connection.execute("UPDATE tenants SET deleted_at = ? WHERE tenant_id = ?", (now, tenant_id)))

        return await self._database.write(write)


class Weightless(QuotaStore):
    async def storage_bytes(self) -> int:
        return 0


@pytest.mark.parametrize(
    ("faulty", "check"),
    [
        (planted(Careless), suite.check_what_is_public_depends_on_nothing_private),
        (planted(Careless), suite.check_a_withdrawn_version_shows_nobody_what_is_private),
        (planted(Forgetful), suite.check_what_is_hidden_stays_for_those_who_are_locked_to_it),
        (planted(Forgetful), suite.check_what_is_deleted_by_force_stays_for_those_who_are_locked_to_it),
        (planted(Ruthless), suite.check_what_is_in_use_is_not_deleted),
        (planted(Timeless), suite.check_the_name_of_what_was_deleted_by_force_is_reserved),
        (Hasty, suite.check_what_nothing_refers_to_is_collected_in_two_steps),
        (Hasty, suite.check_what_is_referred_to_again_is_not_collected),
        (Hoarding, suite.check_what_nothing_refers_to_is_collected_in_two_steps),
        (Unlocked, suite.check_what_is_in_use_is_not_deleted),
        (Unlocked, suite.check_an_image_holds_what_it_is_locked_to),
        (Unlocked, suite.check_an_image_is_rebuilt_in_place),
        (with_directory(Leaving), suite.check_resources_go_with_their_tenant),
        (planted_account("quotas", Weightless), suite.check_resources_count_as_storage),
    ],
)
async def test_a_planted_fault_is_seen(faulty: type[Store], check: Check) -> None:
    with anyio.fail_after(10):
        async with open_store(None) as sound:
            with pytest.raises(AssertionError):
                await check(faulty(sound._database))


def test_every_check_is_in_the_list() -> None:
    assert [check.__name__ for check in suite.CHECKS] == [name for name in vars(suite) if name.startswith("check_")]
