"""PreferenceStore — how the users of one tenant like the console."""

from agentvm.model.account import Preferences
from agentvm.model.ids import KeyId, UserId
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.records import Columns, TenantScope
from agentvm.storage.sql.rows import refuse_deleted

_PREFERENCES = Columns(Preferences)
_GET = f"SELECT {_PREFERENCES.text} FROM preferences WHERE tenant_id = ? AND user_id = ? AND key_id = ?"
_PUT = f"""
INSERT INTO preferences (tenant_id, user_id, key_id, {_PREFERENCES.text}) VALUES (?, ?, ?, {_PREFERENCES.marks})
ON CONFLICT (tenant_id, user_id, key_id) DO UPDATE
SET {", ".join(f"{name} = excluded.{name}" for name in _PREFERENCES.names)}
"""


class PreferenceStore(TenantScope):
    """The preferences of the users of one tenant; those of a key without a user are the key's."""

    async def get(self, user_id: UserId | None, key_id: KeyId | None) -> Preferences:
        preferences = await self._first(_PREFERENCES.decode, _GET, self._owner(user_id, key_id))
        return Preferences() if preferences is None else preferences

    async def put(self, user_id: UserId | None, key_id: KeyId | None, preferences: Preferences) -> None:
        def write(connection: Connection) -> None:
            refuse_deleted(connection, self._tenant_id)
            connection.execute(_PUT, (*self._owner(user_id, key_id), *_PREFERENCES.encode(preferences)))

        await self._database.write(write)

    def _owner(self, user_id: UserId | None, key_id: KeyId | None) -> tuple[str, str, str]:
        return self._tenant_id, user_id or "", "" if user_id is not None else key_id or ""
