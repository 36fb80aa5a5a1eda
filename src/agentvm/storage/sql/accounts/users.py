"""UserStore — the users of one tenant, and which containers each may reach."""

from collections.abc import Callable, Sequence

from agentvm.errors import Conflict, shorten
from agentvm.model.account import User
from agentvm.model.ids import ContainerId, UserId
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.erasing.begin import begin_user, choose_home, only_member_of, refuse_erasing
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
        user's: no data is inherited.
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

    async def is_last_owner(self, user: User) -> bool:
        """Whether this is the only active owner of the tenant."""
        return await self._database.read(lambda connection: self._is_last_owner(connection, user))

    async def change(
        self, user_id: UserId, modify: Callable[[User], User], *, keeps_owner: bool = False
    ) -> tuple[User, User] | None:
        """Changes display name, role and status of a user as it is at that moment; returns it before and after, None when gone.

        With `keeps_owner` a `Conflict` if the tenant would have no active owner any more.
        """

        def write(connection: Connection) -> tuple[User, User] | None:
            before = self._read(connection, user_id)
            if before is None:
                return None
            after = modify(before)
            if keeps_owner and not _is_owner(after):
                self._refuse_last_owner(connection, before)
            about = (after.display_name, after.role, after.status, after.updated_at)
            connection.execute(_UPDATE_USER, (*about, self._tenant_id, user_id))
            return before, after

        return await self._database.write(write)

    async def delete(
        self, user_id: UserId, now: int, *, check: Callable[[User], None] = lambda user: None, keeps_owner: bool = False
    ) -> bool:
        """With its bindings, quotas, drafts and keys, and the containers that no other user is bound to; False when it is gone.

        `check` may refuse, given the user as it is at that moment. With `keeps_owner` a `Conflict` for the last active owner.

        One short commit deletes the user and notes an erasure, see `agentvm.storage.erasing`; the rest goes in small ones, and
        after a crash with the erasure. Its marks in the containers of others go with the erasure.
        """

        def begin(connection: Connection) -> bool:
            user = self._read(connection, user_id)
            if user is None:
                return False
            check(user)
            if keeps_owner:
                self._refuse_last_owner(connection, user)
            return begin_user(connection, self._tenant_id, user_id, now)

        deleted = await self._database.write(begin)
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

    async def only_member_of(self, user_id: UserId) -> tuple[ContainerId, ...]:
        """The containers that no other user is bound to."""
        return await self._database.read(lambda connection: only_member_of(connection, self._tenant_id, user_id))

    def _read(self, connection: Connection, user_id: UserId) -> User | None:
        return next(map(_STORED.decode, connection.fetch(_BY_ID, (self._tenant_id, user_id))), None)

    def _is_last_owner(self, connection: Connection, user: User) -> bool:
        return _is_owner(user) and not connection.fetch(_OTHER_OWNER, (self._tenant_id, user.user_id))

    def _refuse_last_owner(self, connection: Connection, user: User) -> None:
        """Two owners who end each other at once must not both succeed, so this is asked in the transaction of the change."""
        if self._is_last_owner(connection, user):
            raise Conflict("This is the last owner of the tenant; make another user an owner first")


def _is_owner(user: User) -> bool:
    return (user.role, user.status) == ("owner", "active")
