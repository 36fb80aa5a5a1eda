"""UserStore — the users of one tenant, and which containers each may reach."""

from collections.abc import Sequence
from typing import Any

from agentvm.errors import Conflict, shorten
from agentvm.model.account import User
from agentvm.model.ids import ContainerId, TenantId, UserId
from agentvm.storage.sql.accounts.living import refuse_deleted
from agentvm.storage.sql.connection import Connection, Database
from agentvm.storage.sql.erasing.begin import alone_in, begin_user, choose_home, refuse_erasing
from agentvm.storage.sql.erasing.rows import drop_user_slice

_USERS = """
SELECT user_id, tenant_id, external_id, display_name, role, status, created_at, updated_at
FROM users
WHERE tenant_id = ? AND deleted_at IS NULL
"""
_USER = _USERS + "AND user_id = ?"
_USER_BY_NAME = _USERS + "AND external_id = ?"
_USERS_AFTER = _USERS + "AND external_id > ? ORDER BY external_id LIMIT ?"
_USERS_FROM_THE_FIRST = _USERS + "ORDER BY external_id LIMIT ?"
_ADD_USER = """
INSERT INTO users (tenant_id, user_id, external_id, display_name, role, status, created_at, updated_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING
"""
_UPDATE_USER = """
UPDATE users SET display_name = ?, role = ?, status = ?, updated_at = ?
WHERE tenant_id = ? AND user_id = ? AND deleted_at IS NULL
"""
_BIND = "INSERT INTO bindings (tenant_id, user_id, container_id) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_UNBIND = "DELETE FROM bindings WHERE tenant_id = ? AND user_id = ? AND container_id = ?"
_BOUND = "SELECT container_id FROM bindings WHERE tenant_id = ? AND user_id = ? ORDER BY position"


class UserStore:
    """The users of one tenant."""

    def __init__(self, database: Database, tenant_id: TenantId) -> None:
        self._database = database.of(tenant_id)
        self._tenant_id = tenant_id

    async def add(self, user: User, homes: Sequence[ContainerId] = ()) -> None:
        """`Conflict` when the id or the external id is taken.

        In the same commit the user is bound to the first of `homes` that is no container, and neither is nor was another
        user's: nobody inherits anything.
        """
        about = (user.external_id, user.display_name, user.role, user.status, user.created_at, user.updated_at)

        def write(connection: Connection) -> None:
            refuse_deleted(connection, self._tenant_id)
            if connection.execute(_ADD_USER, (self._tenant_id, user.user_id, *about)) == 0:
                raise Conflict(f"There is already a user {shorten(user.external_id)}, or one with the same id")
            home = choose_home(connection, self._tenant_id, homes)
            if home is not None:
                connection.execute(_BIND, (self._tenant_id, user.user_id, home))

        await self._database.write(write)

    async def get(self, user_id: UserId) -> User | None:
        return await self._one(_USER, user_id)

    async def find(self, external_id: str) -> User | None:
        return await self._one(_USER_BY_NAME, external_id)

    async def list(self, *, after: str | None = None, limit: int = 100) -> tuple[User, ...]:
        """By external id, those after the given one."""

        def read(connection: Connection) -> tuple[User, ...]:
            if after is None:
                found = connection.fetch(_USERS_FROM_THE_FIRST, (self._tenant_id, limit))
            else:
                found = connection.fetch(_USERS_AFTER, (self._tenant_id, after, limit))
            return tuple(_decode_user(row) for row in found)

        return await self._database.read(read)

    async def update(self, user: User) -> bool:
        """Replaces display name, role and status; False when it is gone."""
        about = (user.display_name, user.role, user.status, user.updated_at)
        return await self._changes(_UPDATE_USER, (*about, self._tenant_id, user.user_id))

    async def delete(self, user_id: UserId, now: int) -> bool:
        """With its bindings, quotas, drafts and keys, and the containers that no other user is bound to.

        One short commit deletes the user and notes an erasure, see `agentvm.storage.erasing`; the rest goes in small ones, and
        after a crash with the erasure. Its marks in the containers of others go with the erasure.
        """
        deleted = await self._database.write(lambda connection: begin_user(connection, self._tenant_id, user_id, now))
        while deleted and await self._database.write(
            lambda connection: drop_user_slice(connection, self._tenant_id, user_id, now)
        ):
            pass
        return deleted

    async def bind(self, user_id: UserId, container_id: ContainerId) -> bool:
        """Lets the user reach the container; False when there is no such user. Binding twice is binding once.

        `ContainerErasing` while a container of that name is being erased, which unbinds its users.
        """

        def write(connection: Connection) -> bool:
            refuse_erasing(connection, (self._tenant_id, container_id))
            if not connection.fetch(_USER, (self._tenant_id, user_id)):
                return False
            connection.execute(_BIND, (self._tenant_id, user_id, container_id))
            return True

        return await self._database.write(write)

    async def unbind(self, user_id: UserId, container_id: ContainerId) -> bool:
        return await self._changes(_UNBIND, (self._tenant_id, user_id, container_id))

    async def bound(self, user_id: UserId) -> tuple[ContainerId, ...]:
        """In the order they were bound."""

        def read(connection: Connection) -> tuple[ContainerId, ...]:
            return tuple(ContainerId(name) for (name,) in connection.fetch(_BOUND, (self._tenant_id, user_id)))

        return await self._database.read(read)

    async def alone_in(self, user_id: UserId) -> tuple[ContainerId, ...]:
        """The containers that no other user is bound to."""
        return await self._database.read(lambda connection: alone_in(connection, self._tenant_id, user_id))

    async def _one(self, query: str, wanted: str) -> User | None:
        def read(connection: Connection) -> User | None:
            return next((_decode_user(row) for row in connection.fetch(query, (self._tenant_id, wanted))), None)

        return await self._database.read(read)

    async def _changes(self, statement: str, parameters: tuple[str | int | None, ...]) -> bool:
        def write(connection: Connection) -> bool:
            return connection.execute(statement, parameters) == 1

        return await self._database.write(write)


def _decode_user(row: tuple[Any, ...]) -> User:
    user_id, tenant_id, external_id, display_name, role, status, created_at, updated_at = row
    return User(
        user_id=user_id,
        tenant_id=tenant_id,
        external_id=external_id,
        display_name=display_name,
        role=role,
        status=status,
        created_at=created_at,
        updated_at=updated_at,
    )
