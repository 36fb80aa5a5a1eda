"""KeyStore — the keys of one tenant. Of a key itself only its hash is here."""

from collections.abc import Sequence
from typing import Any

import msgspec

from agentvm.errors import Conflict, NotFound, shorten
from agentvm.model.account import ApiKey
from agentvm.model.ids import KeyId, TenantId, UserId
from agentvm.storage.sql.accounts.living import refuse_deleted
from agentvm.storage.sql.connection import Connection, Database
from agentvm.storage.sql.dialect import greater, lesser

_encoder = msgspec.json.Encoder()
_names = msgspec.json.Decoder(tuple[str, ...])

_COLUMNS = """
SELECT key_id, tenant_id, user_id, name, permissions, containers, expires_at, created_by, created_at, last_used_at, revoked_at,
       role
"""
HAS_OWNER = """
NOT EXISTS (SELECT 1 FROM tenants AS t WHERE t.tenant_id = api_keys.tenant_id AND t.deleted_at IS NOT NULL)
AND NOT EXISTS (
    SELECT 1 FROM users AS u
    WHERE u.tenant_id = api_keys.tenant_id AND u.user_id = api_keys.user_id AND u.deleted_at IS NOT NULL
)
"""
"""A condition: neither the tenant nor the user of the key was deleted. Their keys go some at a time."""
FIND_KEY = f"{_COLUMNS}, digest FROM api_keys WHERE key_id = ? AND {HAS_OWNER}"
_KEYS = f"{_COLUMNS} FROM api_keys WHERE tenant_id = ? AND {HAS_OWNER}"
_KEY = f"{_KEYS} AND key_id = ?"
_KEYS_OF_ALL = f"{_KEYS} ORDER BY created_at DESC, position DESC"
_KEYS_OF_USER = f"{_KEYS} AND user_id = ? ORDER BY created_at DESC, position DESC"
_HAS_USER = "SELECT 1 FROM users WHERE tenant_id = ? AND user_id = ? AND deleted_at IS NULL"
_ADD_KEY = """
INSERT INTO api_keys (tenant_id, key_id, digest, user_id, name, permissions, containers, expires_at, created_by, created_at,
                      last_used_at, revoked_at, role)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (key_id) DO NOTHING
"""
_REVOKE = "UPDATE api_keys SET revoked_at = coalesce(revoked_at, ?) WHERE tenant_id = ? AND key_id = ?"
_EXPIRE = f"""
UPDATE api_keys SET expires_at = {lesser("coalesce(expires_at, ?1)", "?1")} WHERE tenant_id = ?2 AND key_id = ?3
"""
_TOUCH = f"""
UPDATE api_keys SET last_used_at = {greater("coalesce(last_used_at, ?1)", "?1")} WHERE tenant_id = ?2 AND key_id = ?3
"""


class KeyStore:
    """The keys of one tenant."""

    def __init__(self, database: Database, tenant_id: TenantId) -> None:
        self._database = database.of(tenant_id)
        self._tenant_id = tenant_id

    async def add(self, key: ApiKey, digest: bytes) -> None:
        """`Conflict` when the id is taken, by whomever; `NotFound` when its user is gone."""
        permissions = _encoder.encode(key.permissions)
        containers = None if key.containers is None else _encoder.encode(key.containers)
        about = (key.user_id, key.name, permissions, containers, key.expires_at, key.created_by, key.created_at)

        def write(connection: Connection) -> None:
            refuse_deleted(connection, self._tenant_id)
            if key.user_id is not None and not connection.fetch(_HAS_USER, (self._tenant_id, key.user_id)):
                raise NotFound(f"User not found: {shorten(key.user_id)}")
            row = (self._tenant_id, key.key_id, digest, *about, key.last_used_at, key.revoked_at, key.role)
            if connection.execute(_ADD_KEY, row) == 0:
                raise Conflict(f"There is already a key {shorten(key.key_id)}")

        await self._database.write(write)

    async def get(self, key_id: KeyId) -> ApiKey | None:
        def read(connection: Connection) -> ApiKey | None:
            return next((decode_key(row) for row in connection.fetch(_KEY, (self._tenant_id, key_id))), None)

        return await self._database.read(read)

    async def list(self, *, user_id: UserId | None = None) -> tuple[ApiKey, ...]:
        """Newest first, revoked ones too; of one user or of all."""

        def read(connection: Connection) -> tuple[ApiKey, ...]:
            if user_id is None:
                found = connection.fetch(_KEYS_OF_ALL, (self._tenant_id,))
            else:
                found = connection.fetch(_KEYS_OF_USER, (self._tenant_id, user_id))
            return tuple(decode_key(row) for row in found)

        return await self._database.read(read)

    async def revoke(self, key_id: KeyId, now: int) -> bool:
        """False when there is no such key; revoking twice changes nothing."""
        return await self._set(_REVOKE, now, key_id)

    async def expire(self, key_id: KeyId, at: int) -> bool:
        """Lets it end then, if it would not end sooner; False when there is no such key."""
        return await self._set(_EXPIRE, at, key_id)

    async def touch(self, used: Sequence[tuple[KeyId, int]]) -> None:
        """When keys were last used; for many at once, because it is not worth a commit each."""
        seen = [(at, self._tenant_id, key_id) for key_id, at in used]

        def write(connection: Connection) -> None:
            connection.many(_TOUCH, seen)

        await self._database.write(write)

    async def _set(self, statement: str, time: int, key_id: KeyId) -> bool:
        def write(connection: Connection) -> bool:
            return connection.execute(statement, (time, self._tenant_id, key_id)) == 1

        return await self._database.write(write)


def decode_key(row: tuple[Any, ...]) -> ApiKey:
    key_id, tenant_id, user_id, name, permissions, containers, expires_at, created_by, created_at, *times = row
    last_used_at, revoked_at, role = times
    return ApiKey(
        key_id=key_id,
        tenant_id=tenant_id,
        name=name,
        user_id=user_id,
        role=role,
        permissions=_names.decode(permissions),
        containers=None if containers is None else _names.decode(containers),
        expires_at=expires_at,
        created_by=created_by,
        created_at=created_at,
        last_used_at=last_used_at,
        revoked_at=revoked_at,
    )
