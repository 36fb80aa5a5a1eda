"""UserStore — the users of one tenant, and which containers each may reach."""

from collections.abc import Sequence

from agentvm.errors import Conflict, shorten
from agentvm.model.account import User
from agentvm.model.ids import ContainerId, UserId
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.erasing.begin import alone_in, begin_user, choose_home, refuse_erasing
from agentvm.storage.sql.erasing.rows import drop_user_slice
from agentvm.storage.sql.records import Columns, TenantScope
from agentvm.storage.sql.rows import refuse_deleted

_USER, _STORED = Columns(User, without=("tenant_id",)), Columns(User)
_USERS = f"SELECT {_STORED.text} FROM users WHERE tenant_id = ? AND deleted_at IS NULL"
_BY_ID = f"{_USERS} AND user_id = ?"
_BY_NAME = f"{_USERS} AND external_id = ?"
_AFTER = f"{_USERS} AND external_id > ? ORDER BY external_id LIMIT ?"
_ADD_USER = f"INSERT INTO users (tenant_id, {_USER.text}) VALUES (?, {_USER.marks}) ON CONFLICT DO NOTHING"
_UPDATE_USER = """
UPDATE users SET display_name = ?, role = ?, status = ?, updated_at = ?
WHERE tenant_id = ? AND user_id = ? AND deleted_at IS NULL
"""
_OTHER_OWNER = f"{_USERS} AND user_id <> ? AND role = 'owner' AND status = 'active' LIMIT 1"
_BIND = "INSERT INTO bindings (tenant_id, user_id, container_id) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_UNBIND = "DELETE FROM bindings WHERE tenant_id = ? AND user_id = ? AND container_id = ?"
_BOUND = "SELECT container_id FROM bindings WHERE tenant_id = ? AND user_id = ? ORDER BY position"


class UserStore(TenantScope):
    """The users of one tenant."""

    async def add(self, user: User, homes: Sequence[ContainerId] = ()) -> None:
        """`Conflict` when the id or the external id is taken.

        In the same commit the user is bound to the first of `homes` that is no container, and neither is nor was another
        user's: nobody inherits anything.
        """

        def write(connection: Connection) -> None:
            refuse_deleted(connection, self._tenant_id)
            if not connection.execute(_ADD_USER, (self._tenant_id, *_USER.encode(user))):
                raise Conflict(f"There is already a user {shorten(user.external_id)}, or one with the same id")
            home = choose_home(connection, self._tenant_id, homes)
            if home is not None:
                connection.execute(_BIND, (self._tenant_id, user.user_id, home))

        await self._database.write(write)

    async def get(self, user_id: UserId) -> User | None:
        return await self._first(_STORED.decode, _BY_ID, (self._tenant_id, user_id))

    async def find(self, external_id: str) -> User | None:
        return await self._first(_STORED.decode, _BY_NAME, (self._tenant_id, external_id))

    async def list(self, *, after: str | None = None, limit: int = 100) -> tuple[User, ...]:
        """Users in the order of their external ids, after the given id."""
        return await self._all(_STORED.decode, _AFTER, (self._tenant_id, after or "", limit))

    async def has_owner_besides(self, user_id: UserId) -> bool:
        """Whether the tenant has an active owner who is somebody else."""
        return await self._first(bool, _OTHER_OWNER, (self._tenant_id, user_id)) is not None

    async def update(self, user: User) -> bool:
        """Replaces display name, role and status; False when it is gone."""
        about = (user.display_name, user.role, user.status, user.updated_at)
        return await self._execute(_UPDATE_USER, (*about, self._tenant_id, user.user_id))

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
            if not connection.fetch(_BY_ID, (self._tenant_id, user_id)):
                return False
            connection.execute(_BIND, (self._tenant_id, user_id, container_id))
            return True

        return await self._database.write(write)

    async def unbind(self, user_id: UserId, container_id: ContainerId) -> bool:
        return await self._execute(_UNBIND, (self._tenant_id, user_id, container_id))

    async def bound(self, user_id: UserId) -> tuple[ContainerId, ...]:
        """Containers of the user in the order they were bound."""
        return await self._all(lambda row: ContainerId(row[0]), _BOUND, (self._tenant_id, user_id))

    async def alone_in(self, user_id: UserId) -> tuple[ContainerId, ...]:
        """The containers that no other user is bound to."""
        return await self._database.read(lambda connection: alone_in(connection, self._tenant_id, user_id))
