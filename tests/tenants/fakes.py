"""Fakes — accounts in memory, a clock that is told the time, and a small world of one tenant to ask for keys in."""

from collections.abc import Callable, Sequence
from typing import cast

import anyio.lowlevel
from msgspec.structs import replace

from agentvm.errors import Conflict, NotFound
from agentvm.model.account import ApiKey, Tenant, User, UserRole
from agentvm.model.ids import ContainerId, KeyId, TenantId, UserId
from agentvm.model.principal import EVERYTHING, Principal
from agentvm.sharing.cache import Cache
from agentvm.storage.sql.accounts import Accounts
from agentvm.storage.sql.accounts.audit import AuditStore
from agentvm.storage.sql.accounts.directory import Directory
from agentvm.storage.sql.accounts.ledger import LedgerStore
from agentvm.storage.sql.accounts.quotas import QuotaStore
from agentvm.storage.sql.store import Store
from agentvm.tenants.access import Access
from agentvm.tenants.authentication import Matches, Named, Verified, Why
from agentvm.tenants.keys import matches as really_matches
from agentvm.tenants.oidc import Oidc
from agentvm.tenants.people import People
from agentvm.tenants.rights import first_container

NOW = 1_794_725_960_366
PEPPER = b"p" * 32
ACME = TenantId("ten_acme")
OPERATOR = Principal(tenant_id=TenantId("default"), key_id=KeyId("operator"), permissions=EVERYTHING)


class FakeClock:
    """Stands still unless it is told otherwise."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> int:
        return self.now


class FakeRandom:
    """Different each time, the same in each run."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, bits: int) -> int:
        self._count += 1
        return int.from_bytes((f"random {self._count} ".encode() * 64)[: bits // 8 + 1]) % (1 << bits)


class FakeDirectory:
    def __init__(self, store: "FakeStore") -> None:
        self._store = store

    async def add_tenant(self, tenant: Tenant) -> None:
        await self._store.turn("add_tenant")
        if tenant.tenant_id in self._store.taken or await self.find_tenant(tenant.slug) is not None:
            raise Conflict("taken")
        self._store.taken.add(tenant.tenant_id)
        self._store.tenants[tenant.tenant_id] = tenant

    async def get_tenant(self, tenant_id: TenantId) -> Tenant | None:
        await self._store.turn("get_tenant")
        return self._store.tenants.get(tenant_id)

    async def find_tenant(self, slug: str) -> Tenant | None:
        await self._store.turn("find_tenant")
        return next((tenant for tenant in self._store.tenants.values() if tenant.slug == slug), None)

    async def list_tenants(self, *, after: str | None = None, limit: int = 100) -> tuple[Tenant, ...]:
        found = sorted(self._store.tenants.values(), key=lambda tenant: tenant.slug)
        return tuple(tenant for tenant in found if after is None or tenant.slug > after)[:limit]

    async def change_tenant(self, tenant_id: TenantId, modify: Callable[[Tenant], Tenant]) -> tuple[Tenant, Tenant] | None:
        await self._store.turn("change_tenant")
        before = self._store.tenants.get(tenant_id)
        if before is None:
            return None
        self._store.tenants[tenant_id] = modify(before)
        return before, self._store.tenants[tenant_id]

    async def delete_tenant(self, tenant_id: TenantId, now: int) -> bool:
        await self._store.turn("delete_tenant")
        for key_id in [key_id for key_id, (key, _) in self._store.keys.items() if key.tenant_id == tenant_id]:
            del self._store.keys[key_id]
        return self._store.tenants.pop(tenant_id, None) is not None

    async def find_key(self, key_id: KeyId) -> tuple[ApiKey, bytes] | None:
        await self._store.turn("find_key")
        return self._store.keys.get(key_id)

    async def has_keys(self) -> bool:
        return any(key.revoked_at is None for key, _ in self._store.keys.values())


class FakeUsers:
    def __init__(self, store: "FakeStore", tenant_id: TenantId) -> None:
        self._store, self._tenant_id = store, tenant_id

    def _mine(self) -> list[User]:
        return [user for user in self._store.users.values() if user.tenant_id == self._tenant_id]

    async def add(self, user: User, homes: Sequence[ContainerId] = ()) -> None:
        await self._store.turn("add_user")
        if any(user.external_id == other.external_id or user.user_id == other.user_id for other in self._mine()):
            raise Conflict("taken")
        self._store.users[user.user_id] = user
        taken = {*self._store.retired, *(name for bound in self._store.bindings.values() for name in bound)}
        self._store.bindings[user.user_id] = [home for home in homes if home not in taken][:1]

    async def get(self, user_id: UserId) -> User | None:
        await self._store.turn("get_user")
        return next((user for user in self._mine() if user.user_id == user_id), None)

    async def find(self, external_id: str) -> User | None:
        await self._store.turn("find_user")
        return next((user for user in self._mine() if user.external_id == external_id), None)

    async def list(self, *, after: str | None = None, limit: int = 100) -> tuple[User, ...]:
        found = sorted(self._mine(), key=lambda user: user.external_id)
        return tuple(user for user in found if after is None or user.external_id > after)[:limit]

    async def change(
        self, user_id: UserId, modify: Callable[[User], User], *, keeps_owner: bool = False
    ) -> tuple[User, User] | None:
        before = await self.get(user_id)
        if before is None:
            return None
        self._store.users[user_id] = modify(before)
        return before, self._store.users[user_id]

    async def delete(
        self, user_id: UserId, now: int, *, check: Callable[[User], None] = lambda user: None, keeps_owner: bool = False
    ) -> bool:
        user = await self.get(user_id)
        if user is None:
            return False
        check(user)
        del self._store.users[user_id]
        self._store.retired.update(self._store.bindings.pop(user_id, ()))
        for key_id in [key_id for key_id, (key, _) in self._store.keys.items() if key.user_id == user_id]:
            del self._store.keys[key_id]
        return True

    async def bind(self, user_id: UserId, container_id: ContainerId) -> bool:
        if await self.get(user_id) is None:
            return False
        bound = self._store.bindings.setdefault(user_id, [])
        if container_id not in bound:
            bound.append(container_id)
        return True

    async def unbind(self, user_id: UserId, container_id: ContainerId) -> bool:
        await self._store.turn("unbind")
        bound = self._store.bindings.get(user_id, [])
        if container_id not in bound:
            return False
        bound.remove(container_id)
        return True

    async def bound(self, user_id: UserId) -> tuple[ContainerId, ...]:
        await self._store.turn("bound")
        return tuple(self._store.bindings.get(user_id, ()))

    async def only_member_of(self, user_id: UserId) -> tuple[ContainerId, ...]:
        others = {name for other, bound in self._store.bindings.items() if other != user_id for name in bound}
        return tuple(name for name in self._store.bindings.get(user_id, ()) if name not in others)


class FakeKeys:
    def __init__(self, store: "FakeStore", tenant_id: TenantId) -> None:
        self._store, self._tenant_id = store, tenant_id

    async def add(self, key: ApiKey, digest: bytes) -> None:
        await self._store.turn("add_key")
        if key.key_id in self._store.keys:
            raise Conflict("taken")
        if key.user_id is not None and key.user_id not in self._store.users:
            raise NotFound("no such user")
        self._store.keys[key.key_id] = (key, digest)

    async def get(self, key_id: KeyId) -> ApiKey | None:
        await self._store.turn("get_key")
        key, _ = self._store.keys.get(key_id, (None, b""))
        return key if key is not None and key.tenant_id == self._tenant_id else None

    async def list(self, *, user_id: UserId | None = None) -> tuple[ApiKey, ...]:
        mine = [key for key, _ in self._store.keys.values() if key.tenant_id == self._tenant_id]
        return tuple(reversed([key for key in mine if user_id is None or key.user_id == user_id]))

    async def _change(self, key_id: KeyId, **members: object) -> bool:
        key = await self.get(key_id)
        if key is None:
            return False
        self._store.keys[key_id] = (replace(key, **members), self._store.keys[key_id][1])
        return True

    async def rotate(self, old_id: KeyId, key: ApiKey, digest: bytes, *, now: int, ends_at: int | None) -> bool:
        old = await self.get(old_id)
        if old is None or not old.is_valid(now):
            return False
        await self.add(key, digest)
        if ends_at is None:
            return await self._change(old_id, revoked_at=now)
        return await self._change(old_id, expires_at=ends_at if old.expires_at is None else min(ends_at, old.expires_at))

    async def revoke(self, key_id: KeyId, now: int, *, check: Callable[[Sequence[ApiKey]], None] | None = None) -> bool:
        if check is not None:
            check(await self.list())
        key = await self.get(key_id)
        if key is not None and key.revoked_at is not None:
            return True
        return await self._change(key_id, revoked_at=now)

    async def touch(self, used: Sequence[tuple[KeyId, int]]) -> None:
        await self._store.turn("touch")
        self._store.touched.append(tuple(used))
        for key_id, at in used:
            await self._change(key_id, last_used_at=at)


class FakeSecrets:
    def __init__(self, store: "FakeStore", tenant_id: TenantId) -> None:
        self._kept = store.secrets.setdefault(tenant_id, {})

    async def put(self, name: str, sealed: bytes, now: int) -> None:
        self._kept[name] = (sealed, now)

    async def get(self, name: str) -> bytes | None:
        return self._kept[name][0] if name in self._kept else None

    async def list(self) -> tuple[tuple[str, int], ...]:
        return tuple((name, at) for name, (_, at) in sorted(self._kept.items()))

    async def remove(self, name: str) -> bool:
        return self._kept.pop(name, None) is not None


class FakeAccounts:
    def __init__(self, store: "FakeStore", tenant_id: TenantId) -> None:
        self.users, self.keys, self.secrets = (
            FakeUsers(store, tenant_id),
            FakeKeys(store, tenant_id),
            FakeSecrets(store, tenant_id),
        )
        nothing = object()
        self.quotas, self.audit = cast(QuotaStore, nothing), cast(AuditStore, nothing)
        self.ledger = cast(LedgerStore, nothing)


class FakeStore(Store):
    """Everything is a dict. `asked` counts questions, `failing` are raised, `held` are waited for once they are answered."""

    def __init__(self) -> None:
        self.tenants: dict[TenantId, Tenant] = {}
        self.taken: set[TenantId] = set()
        self.users: dict[UserId, User] = {}
        self.bindings: dict[UserId, list[ContainerId]] = {}
        self.retired: set[ContainerId] = set()
        self.keys: dict[KeyId, tuple[ApiKey, bytes]] = {}
        self.secrets: dict[TenantId, dict[str, tuple[bytes, int]]] = {}
        self.touched: list[tuple[tuple[KeyId, int], ...]] = []
        self.asked: list[str] = []
        self.failing: dict[str, Exception] = {}
        self.held: dict[str, tuple[anyio.Event, anyio.Event]] = {}
        self.directory = cast(Directory, FakeDirectory(self))

    def accounts(self, tenant_id: TenantId) -> Accounts:
        return cast(Accounts, FakeAccounts(self, tenant_id))

    def hold(self, question: str) -> tuple[anyio.Event, anyio.Event]:
        """The next such question is asked (the first event) and stays open until the second is set."""
        self.held[question] = (anyio.Event(), anyio.Event())
        return self.held[question]

    async def turn(self, question: str) -> None:
        """Others may run while a database works."""
        self.asked.append(question)
        await anyio.lowlevel.checkpoint()
        if question in self.held:
            arrived, go_on = self.held.pop(question)
            arrived.set()
            await go_on.wait()
        if question in self.failing:
            raise self.failing[question]


class World:
    """A server with the tenant Acme. `ended` is what the server was told, `compared` how many digests were."""

    def __init__(
        self, *, oidc: Oidc | None = None, clock: FakeClock | None = None, recent: Cache[str, Verified] | None = None
    ) -> None:
        self.store, self.clock = FakeStore(), clock or FakeClock()
        self.ended: list[tuple[Named, Why]] = []
        self.compared = 0
        self.access = Access(
            self.store,
            pepper=PEPPER,
            clock=self.clock,
            random_bits=FakeRandom(),
            oidc=oidc,
            ended=lambda named, why: self.ended.append((named, why)),
            matches=self._count(),
            recent=recent,
        )
        self.people = People(self.store, self.access, clock=self.clock)
        self.add_tenant(ACME, "acme")

    def _count(self) -> Matches:
        def matches(*arguments: object) -> bool:
            self.compared += 1
            return really_matches(*arguments)  # type: ignore[arg-type]

        return matches

    def add_tenant(self, tenant_id: TenantId, slug: str) -> Tenant:
        tenant = Tenant(tenant_id=tenant_id, slug=slug, name=slug.title(), created_at=NOW, updated_at=NOW)
        self.store.tenants[tenant_id] = tenant
        self.store.taken.add(tenant_id)
        return tenant

    def add_user(self, external_id: str = "alice", *, role: UserRole = "member", tenant_id: TenantId = ACME) -> User:
        user_id = UserId(f"usr_{external_id}")
        user = User(user_id=user_id, tenant_id=tenant_id, external_id=external_id, role=role, created_at=NOW, updated_at=NOW)
        self.store.users[user_id] = user
        self.store.bindings[user_id] = [first_container(user)]
        return user

    async def key(self, **members: object) -> tuple[ApiKey, str]:
        """A key of Acme and what is shown of it."""
        members = {"name": "a key", "granter": OPERATOR, **members}
        key, secret = await self.access.issue(ACME, **members)  # type: ignore[arg-type]
        return key, secret.reveal()
