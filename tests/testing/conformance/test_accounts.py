"""The suite itself: stores with one planted fault each must not pass."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
import pytest
from msgspec import structs

from agentvm.model.account import ApiKey, AuditEntry, Quota, Tenant, User
from agentvm.model.ids import ContainerId, KeyId, TenantId, UserId
from agentvm.storage.engine import open_store
from agentvm.storage.sql.accounts import Accounts
from agentvm.storage.sql.accounts.audit import AuditStore
from agentvm.storage.sql.accounts.directory import Directory
from agentvm.storage.sql.accounts.keys import KeyStore
from agentvm.storage.sql.accounts.quotas import QuotaStore
from agentvm.storage.sql.accounts.secrets import SecretStore
from agentvm.storage.sql.accounts.users import UserStore
from agentvm.storage.sql.store import Store
from agentvm.testing.conformance import accounts as suite

pytestmark = pytest.mark.anyio

Check = Callable[[Store], Awaitable[None]]


def planted(repository: str, of: type[Any]) -> type[Store]:
    """A store in which one repository of every tenant is of the given class."""

    class Faulty(Store):
        def accounts(self, tenant_id: TenantId) -> Accounts:
            accounts = super().accounts(tenant_id)
            setattr(accounts, repository, of(self._database, tenant_id))
            return accounts

    return Faulty


def blind(of: type[Any]) -> type[Any]:
    """A repository that takes all tenants for one."""

    class Blind(of):  # type: ignore[misc]
        def __init__(self, database: object, tenant_id: TenantId) -> None:
            super().__init__(database, TenantId("everybody"))

    return Blind


def with_directory(of: type[Directory]) -> type[Store]:
    class Faulty(Store):
        @property
        def directory(self) -> Directory:
            return of(self._database)

        @directory.setter
        def directory(self, made: object) -> None:
            """What the store makes for itself is not used."""

    return Faulty


class Overwriting(Directory):
    async def add_tenant(self, tenant: Tenant) -> None:
        if not await self.update_tenant(tenant):
            await super().add_tenant(tenant)


class Immortal(Directory):
    async def delete_tenant(self, tenant_id: TenantId, now: int) -> bool:
        return await self.get_tenant(tenant_id) is not None


class OnePage(Directory):
    async def list_tenants(self, *, after: str | None = None, limit: int = 100) -> tuple[Tenant, ...]:
        return await super().list_tenants(limit=limit)


class Promoting(UserStore):
    async def add(self, user: User, homes: Sequence[ContainerId] = ()) -> None:
        await super().add(structs.replace(user, role="owner"), homes)


class Alphabetical(UserStore):
    async def bound(self, user_id: UserId) -> tuple[ContainerId, ...]:
        return tuple(sorted(await super().bound(user_id)))


class LeavesKeys(UserStore):
    async def delete(self, user_id: UserId, now: int) -> bool:
        def write(connection: Any) -> bool:
            return bool(connection.execute("DELETE FROM users WHERE tenant_id = ? AND user_id = ?", (self._tenant_id, user_id)))

        return await self._database.write(write)


class Unbound(KeyStore):
    async def add(self, key: ApiKey, digest: bytes) -> None:
        await super().add(structs.replace(key, containers=key.containers or None), digest)


class Reviving(KeyStore):
    async def expire(self, key_id: KeyId, at: int) -> bool:
        def write(connection: Any) -> bool:
            return bool(connection.execute("UPDATE api_keys SET expires_at = ? WHERE key_id = ?", (at, key_id)))

        return await self._database.write(write)


class Unused(KeyStore):
    async def touch(self, used: Sequence[tuple[KeyId, int]]) -> None:
        await super().touch(used[:1])


class Strict(QuotaStore):
    async def put(self, quota: Quota, now: int) -> None:
        await super().put(structs.replace(quota, user_id=None), now)


class Weightless(QuotaStore):
    async def storage_bytes(self) -> int:
        return 0


class Shortening(SecretStore):
    async def get(self, name: str) -> bytes | None:
        found = await super().get(name)
        return None if found is None else found.rstrip(b"\xff")


class Forward(AuditStore):
    async def list(
        self, *, before: int | None = None, limit: int = 100, action: str | None = None
    ) -> tuple[tuple[int, AuditEntry], ...]:
        return (await super().list(before=before, limit=limit, action=action))[::-1]


class Trusting(UserStore):
    async def add(self, user: User, homes: Sequence[ContainerId] = ()) -> None:
        await UserStore(self._database, user.tenant_id).add(user, homes)


@pytest.mark.parametrize(
    ("faulty", "check"),
    [
        (with_directory(Overwriting), suite.check_two_tenants_share_neither_id_nor_slug),
        (with_directory(Immortal), suite.check_a_deleted_tenant_leaves_only_its_records_of_the_past),
        (with_directory(OnePage), suite.check_tenants_are_listed_page_by_page),
        (planted("users", Promoting), suite.check_a_user_comes_back_as_they_were),
        (planted("users", Alphabetical), suite.check_a_user_is_bound_to_containers_in_order),
        (planted("users", LeavesKeys), suite.check_a_deleted_user_can_do_nothing_more),
        (planted("users", Trusting), suite.check_the_scope_decides_the_tenant_not_the_record),
        (planted("keys", Unbound), suite.check_a_key_comes_back_as_it_was),
        (planted("keys", Reviving), suite.check_a_key_ends_once_and_no_later),
        (planted("keys", Reviving), suite.check_accounts_of_tenants_never_mix),
        (planted("keys", Unused), suite.check_the_last_use_of_keys_only_moves_on),
        (planted("quotas", Strict), suite.check_a_quota_replaces_the_one_of_the_same_metric_and_user),
        (planted("quotas", Weightless), suite.check_storage_is_what_all_that_is_said_and_images_take),
        (planted("secrets", Shortening), suite.check_a_secret_is_kept_as_it_was_sealed),
        (planted("audit", Forward), suite.check_the_audit_log_is_read_newest_first_page_by_page),
        (planted("quotas", blind(QuotaStore)), suite.check_accounts_of_tenants_never_mix),
        (planted("secrets", blind(SecretStore)), suite.check_accounts_of_tenants_never_mix),
        (planted("audit", blind(AuditStore)), suite.check_accounts_of_tenants_never_mix),
    ],
)
async def test_a_planted_fault_is_seen(faulty: type[Store], check: Check) -> None:
    with anyio.fail_after(5):
        async with open_store(None) as sound:
            with pytest.raises(AssertionError):
                await check(faulty(sound._database))


def test_every_check_is_in_the_list() -> None:
    assert [check.__name__ for check in suite.CHECKS] == [name for name in vars(suite) if name.startswith("check_")]
