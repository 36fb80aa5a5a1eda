"""KeyStore — the keys of one tenant. Of a key itself only its hash is here."""

from collections.abc import Callable, Sequence
from typing import Any

from agentvm.errors import Conflict, not_found, shorten
from agentvm.model.account import ApiKey
from agentvm.model.ids import KeyId, UserId
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.dialect import greater, lesser
from agentvm.storage.sql.records import Columns, TenantScope
from agentvm.storage.sql.rows import refuse_deleted

DROPPED_MAX = 100
"""Keys that have ended that one commit deletes."""

_KEY, _STORED = Columns(ApiKey, without=("tenant_id",)), Columns(ApiKey)
HAS_OWNER = """
NOT EXISTS (SELECT 1 FROM tenants AS t WHERE t.tenant_id = api_keys.tenant_id AND t.deleted_at IS NOT NULL)
AND NOT EXISTS (
    SELECT 1 FROM users AS u
    WHERE u.tenant_id = api_keys.tenant_id AND u.user_id = api_keys.user_id AND u.deleted_at IS NOT NULL
)
"""
"""A condition: neither the tenant nor the user of the key was deleted. Their keys go some at a time."""
FIND_KEY = f"SELECT {_STORED.text}, digest FROM api_keys WHERE key_id = ? AND {HAS_OWNER}"
_KEYS = f"SELECT {_STORED.text} FROM api_keys WHERE tenant_id = ? AND {HAS_OWNER}"
_BY_ID = f"{_KEYS} AND key_id = ?"
_KEYS_OF_ALL = f"{_KEYS} ORDER BY created_at DESC, position DESC"
_KEYS_OF_USER = f"{_KEYS} AND user_id = ? ORDER BY created_at DESC, position DESC"
_HAS_USER = "SELECT 1 FROM users WHERE tenant_id = ? AND user_id = ? AND deleted_at IS NULL"
_ADD_KEY = f"""
INSERT INTO api_keys (tenant_id, digest, {_KEY.text}) VALUES (?, ?, {_KEY.marks}) ON CONFLICT (key_id) DO NOTHING
"""
_REVOKE = "UPDATE api_keys SET revoked_at = coalesce(revoked_at, ?) WHERE tenant_id = ? AND key_id = ?"
_EXPIRE = f"""
UPDATE api_keys SET expires_at = {lesser("coalesce(expires_at, ?1)", "?1")} WHERE tenant_id = ?2 AND key_id = ?3
"""
_EXTEND = f"""
UPDATE api_keys SET expires_at = {greater("expires_at", "?1")} WHERE tenant_id = ?2 AND key_id = ?3 AND revoked_at IS NULL
"""
_DROP_ENDED = """
DELETE FROM api_keys WHERE key_id IN (
    SELECT key_id FROM api_keys
    WHERE tenant_id = ? AND user_id = ? AND created_by = ? AND (revoked_at IS NOT NULL OR expires_at <= ?) LIMIT ?
)
"""
_TOUCH = f"""
UPDATE api_keys SET last_used_at = {greater("coalesce(last_used_at, ?1)", "?1")} WHERE tenant_id = ?2 AND key_id = ?3
"""


class KeyStore(TenantScope):
    """The keys of one tenant."""

    async def add(self, key: ApiKey, digest: bytes) -> None:
        """`Conflict` when the id is taken, by whomever; `NotFound` when its user is gone."""

        await self._database.write(lambda connection: self._add(connection, key, digest))

    def _add(self, connection: Connection, key: ApiKey, digest: bytes) -> None:
        refuse_deleted(connection, self._tenant_id)
        if key.user_id is not None and not connection.fetch(_HAS_USER, (self._tenant_id, key.user_id)):
            raise not_found("User", key.user_id)
        if not connection.execute(_ADD_KEY, (self._tenant_id, digest, *_KEY.encode(key))):
            raise Conflict(f"There is already a key {shorten(key.key_id)}")

    async def rotate(self, old_id: KeyId, key: ApiKey, digest: bytes, *, now: int, ends_at: int | None) -> bool:
        """Adds a key in place of another, which is revoked, or expires at `ends_at`; False when that is not valid any more."""

        def write(connection: Connection) -> bool:
            old = next(map(_STORED.decode, connection.fetch(_BY_ID, (self._tenant_id, old_id))), None)
            if old is None or not old.is_valid(now):
                return False
            self._add(connection, key, digest)
            end = (_REVOKE, now) if ends_at is None else (_EXPIRE, ends_at)
            connection.execute(end[0], (end[1], self._tenant_id, old_id))
            return True

        return await self._database.write(write)

    async def get(self, key_id: KeyId) -> ApiKey | None:
        return await self._first(_STORED.decode, _BY_ID, (self._tenant_id, key_id))

    async def list(self, *, user_id: UserId | None = None) -> tuple[ApiKey, ...]:
        """Newest first, revoked ones too; of one user or of all."""
        if user_id is None:
            return await self._all(_STORED.decode, _KEYS_OF_ALL, (self._tenant_id,))
        return await self._all(_STORED.decode, _KEYS_OF_USER, (self._tenant_id, user_id))

    async def revoke(self, key_id: KeyId, now: int, *, check: Callable[[Sequence[ApiKey]], None] | None = None) -> bool:
        """False when there is no such key; revoking twice changes nothing. `check` may refuse, given all keys of the tenant."""

        def write(connection: Connection) -> bool:
            if check is not None:
                check([_STORED.decode(row) for row in connection.fetch(_KEYS_OF_ALL, (self._tenant_id,))])
            return connection.execute(_REVOKE, (now, self._tenant_id, key_id)) > 0

        return await self._database.write(write)

    async def extend(self, key_id: KeyId, at: int) -> bool:
        """Sets the expiry of a key that has one, unless it is later already."""
        return await self._execute(_EXTEND, (at, self._tenant_id, key_id))

    async def drop_ended(self, user_id: UserId, created_by: str, now: int) -> None:
        """Deletes keys of a user that were created so and have ended, `DROPPED_MAX` at a time."""
        await self._execute(_DROP_ENDED, (self._tenant_id, user_id, created_by, now, DROPPED_MAX))

    async def touch(self, used: Sequence[tuple[KeyId, int]]) -> None:
        """When keys were last used; for many at once, because it is not worth a commit each."""
        rows = [(at, self._tenant_id, key_id) for key_id, at in used]
        await self._database.write(lambda connection: connection.many(_TOUCH, rows))


def decode_found(row: Sequence[Any]) -> tuple[ApiKey, bytes]:
    """A key and its hash, of a row of `FIND_KEY`."""
    return _STORED.decode(row[:-1]), bytes(row[-1])
