"""Accounts — what the rest of AgentVM may ask of a database about tenants, their keys and their money.

As everywhere, a repository is for a scope: `store.accounts(tenant_id)` sees one tenant, and enters everything under it,
whatever tenant a record names. Only two questions cross tenants, and only `store.directory` answers them: which tenants there
are, and whose a key is. A deleted tenant takes no more users, keys, quotas and secrets: `NotFound`. Ranges of time are from
`since` on and before `until`. Conformance: `agentvm.testing.conformance.accounts` and `ledger`.
"""

from collections.abc import Sequence
from typing import Protocol

from agentvm.model.account import ApiKey, AuditEntry, Quota, Tenant, User
from agentvm.model.ids import ContainerId, KeyId, TenantId, UserId
from agentvm.model.ledger import AskedCall, Credit, LedgerEntry, UsageRow, Wallet
from agentvm.model.usage import Usage


class Directory(Protocol):
    """The tenants of a server."""

    async def add_tenant(self, tenant: Tenant) -> None:
        """`Conflict` when the id or the slug is taken. The id of a deleted tenant stays taken, its slug does not."""

    async def get_tenant(self, tenant_id: TenantId) -> Tenant | None: ...

    async def find_tenant(self, slug: str) -> Tenant | None: ...

    async def list_tenants(self, *, after: str | None = None, limit: int = 100) -> tuple[Tenant, ...]:
        """By slug, those after the given one."""

    async def update_tenant(self, tenant: Tenant) -> bool:
        """Replaces name, description, status, plan and slug; False when it is gone. `Conflict` when the slug is taken."""

    async def delete_tenant(self, tenant_id: TenantId, now: int) -> bool:
        """Out of reach at once; an erasure of all that is its own is noted, see `agentvm.storage.erasing`.

        Its users, keys, quotas, secrets and resources are gone when this returns; versions of resources that other tenants are
        locked to stay for them. Its ledger and audit log stay.
        """

    async def find_key(self, key_id: KeyId) -> tuple[ApiKey, bytes] | None:
        """A key and its hash, whosever it is: how a caller becomes a tenant."""

    async def has_keys(self) -> bool:
        """Whether there is any key that was not revoked: if not, the server prints a first one."""


class UserStore(Protocol):
    """The users of one tenant."""

    async def add(self, user: User, homes: Sequence[ContainerId] = ()) -> None:
        """`Conflict` when the id or the external id is taken.

        In the same commit the user is bound to the first of `homes` that is no container, and neither is nor was another
        user's: nobody inherits anything.
        """

    async def get(self, user_id: UserId) -> User | None: ...

    async def find(self, external_id: str) -> User | None: ...

    async def list(self, *, after: str | None = None, limit: int = 100) -> tuple[User, ...]:
        """By external id, those after the given one."""

    async def update(self, user: User) -> bool:
        """Replaces display name, role and status; False when it is gone."""

    async def delete(self, user_id: UserId, now: int) -> bool:
        """With its bindings, quotas, drafts and keys, and the containers that no other user is bound to.

        Erasures of these containers and of its marks in others are noted, see `agentvm.storage.erasing`.
        """

    async def bind(self, user_id: UserId, container_id: ContainerId) -> bool:
        """Lets the user reach the container; False when there is no such user. Binding twice is binding once."""

    async def unbind(self, user_id: UserId, container_id: ContainerId) -> bool: ...

    async def bound(self, user_id: UserId) -> tuple[ContainerId, ...]:
        """In the order they were bound."""

    async def alone_in(self, user_id: UserId) -> tuple[ContainerId, ...]:
        """Of these the ones that no other user is bound to."""


class KeyStore(Protocol):
    """The keys of one tenant."""

    async def add(self, key: ApiKey, digest: bytes) -> None:
        """`Conflict` when the id is taken, by whomever; `NotFound` when its user is gone."""

    async def get(self, key_id: KeyId) -> ApiKey | None: ...

    async def list(self, *, user_id: UserId | None = None) -> tuple[ApiKey, ...]:
        """Newest first, revoked ones too; of one user or of all."""

    async def revoke(self, key_id: KeyId, now: int) -> bool:
        """False when there is no such key; revoking twice changes nothing."""

    async def expire(self, key_id: KeyId, at: int) -> bool:
        """Lets it end then, if it would not end sooner; False when there is no such key."""

    async def touch(self, used: Sequence[tuple[KeyId, int]]) -> None:
        """When keys were last used; for many at once, because it is not worth a commit each."""


class QuotaStore(Protocol):
    """The limits of one tenant and of its users."""

    async def put(self, quota: Quota, now: int) -> None:
        """Replaces the one of the same metric and user."""

    async def list(self) -> tuple[Quota, ...]:
        """The tenant's own first, then those of each user."""

    async def remove(self, metric: str, user_id: UserId | None) -> bool: ...

    async def storage_bytes(self) -> int:
        """What all that the tenant has stored takes. Looks at each thing of it: worth asking rarely.

        That is messages, attachments, logs, images, sessions, resources, secrets, settings, drafts, read marks, audit entries.
        """

    async def count_containers(self) -> int: ...

    async def add_exported(self, amount: int, day: int) -> None:
        """Bytes that left by an export; `day` is when a day began."""

    async def exported(self, day: int) -> int:
        """What left by exports on that day."""


class SecretStore(Protocol):
    """Sealed secrets of one tenant, by name. What is inside is not known here."""

    async def put(self, name: str, sealed: bytes, now: int) -> None:
        """Replaces the one of the same name."""

    async def get(self, name: str) -> bytes | None: ...

    async def list(self) -> tuple[tuple[str, int], ...]:
        """Names, and when each was put."""

    async def remove(self, name: str) -> bool: ...


class AuditStore(Protocol):
    """What was done in one tenant."""

    async def add(self, entry: AuditEntry) -> None: ...

    async def list(
        self, *, before: int | None = None, limit: int = 100, action: str | None = None
    ) -> tuple[tuple[int, AuditEntry], ...]:
        """Newest first, with their numbers; those with a number below `before`."""


class LedgerStore(Protocol):
    """What one tenant used and paid."""

    async def add(self, entries: Sequence[LedgerEntry], *, answered: Sequence[str] = ()) -> int:
        """How many were new; those of the same key are left alone. The turn's own commit adds entries too.

        In the same commit the calls that were asked under the keys `answered` are no longer remembered.
        """

    async def list(
        self, *, after: int = 0, limit: int = 1000, since: int = 0, until: int | None = None
    ) -> tuple[tuple[int, LedgerEntry], ...]:
        """In the order they were added, with their numbers."""

    async def usage(
        self,
        *,
        by: Sequence[str],
        since: int = 0,
        until: int | None = None,
        user_id: UserId | None = None,
        containers: Sequence[ContainerId] | None = None,
    ) -> tuple[UsageRow, ...]:
        """Sums by some of user, container, image, driver, model, hour, day, month; one row without any of them.

        `InvalidInput` for anything else. `containers` are exact names; without any there is nothing to sum.
        """

    async def of_turn(self, turn_id: str) -> tuple[LedgerEntry, ...]:
        """The calls of one turn, in the order they were added."""

    async def turn_total(self, turn_id: str) -> tuple[Usage, int]:
        """What the calls of one turn used, and their price."""

    async def credit(self, credit: Credit) -> bool:
        """Adds money, once per reference; False when it was there. Negative takes money back: `Conflict` if there is less.

        That holds also for those who take back at once.
        """

    async def wallet(self) -> Wallet: ...

    async def credits(self, *, limit: int = 100) -> tuple[Credit, ...]:
        """Newest first."""


class AskedStore(Protocol):
    """The model calls of one tenant that were asked and are not in the ledger. `LedgerStore.add` forgets them."""

    async def add(self, call: AskedCall) -> None:
        """In place of one of the same key. The turn's own commit adds calls too."""

    async def of_turn(self, turn_id: str) -> tuple[AskedCall, ...]:
        """Those of one turn, in the order of their keys."""


class Accounts(Protocol):
    """Everything of one tenant but its containers."""

    users: UserStore
    keys: KeyStore
    quotas: QuotaStore
    secrets: SecretStore
    audit: AuditStore
    ledger: LedgerStore
    asked: AskedStore


__all__ = [
    "Accounts", "AskedStore", "AuditStore", "Directory", "KeyStore", "LedgerStore", "QuotaStore", "SecretStore", "UserStore",
]  # fmt: skip
