"""ChannelStore — the chat channels of one tenant, and their messages until the answers have been delivered."""

from collections.abc import Callable

from agentvm.errors import Conflict
from agentvm.model.channel import ChannelId, ChannelMessage, ChatChannel
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.dialect import ROWS_MAX
from agentvm.storage.sql.records import Columns, TenantScope
from agentvm.storage.sql.rows import refuse_deleted

CHANNELS_MAX = 100
"""Channels of one tenant."""
RETENTION_MS = 7 * 24 * 3_600_000
"""A delivered message is known this long, so that a platform which repeats it is answered once."""
TRIMMED_MAX = 100
"""Rows of delivered messages that one new message drops."""

_CHANNEL = Columns(ChatChannel)
LIST_ENABLED = f"SELECT {_CHANNEL.text} FROM channels WHERE enabled = 1 ORDER BY position"
decode_channel = _CHANNEL.decode
_OF_TENANT = f"SELECT {_CHANNEL.text} FROM channels WHERE tenant_id = ?"
_LIST = f"{_OF_TENANT} ORDER BY name"
_GET = f"{_OF_TENANT} AND channel_id = ?"
_NAMED = "SELECT 1 FROM channels WHERE tenant_id = ? AND name = ? AND channel_id <> ?"
_COUNT = "SELECT count(*) FROM channels WHERE tenant_id = ?"
_ADD = f"INSERT INTO channels ({_CHANNEL.text}) VALUES ({_CHANNEL.marks})"
_UPDATE = f"""
UPDATE channels SET {", ".join(f"{name} = ?" for name in _CHANNEL.names)} WHERE tenant_id = ? AND channel_id = ?
"""
_DELETE = "DELETE FROM channels WHERE tenant_id = ? AND channel_id = ?"
_DELETE_MESSAGES = f"""
DELETE FROM channel_messages WHERE position IN (
    SELECT position FROM channel_messages WHERE tenant_id = ? AND channel_id = ? LIMIT {ROWS_MAX}
)
"""

_MESSAGE, _NEW = Columns(ChannelMessage), Columns(ChannelMessage, without=("position",))
_OF_CHANNEL = "tenant_id = ? AND channel_id = ?"
_HEARD = f"SELECT 1 FROM channel_messages WHERE {_OF_CHANNEL} AND message_key = ?"
_PENDING_COUNT = f"SELECT count(*) FROM channel_messages WHERE {_OF_CHANNEL} AND done_at IS NULL"
_HEAR = f"INSERT INTO channel_messages (tenant_id, {_NEW.text}) VALUES (?, {_NEW.marks})"
_TRIM = f"""
DELETE FROM channel_messages WHERE position IN (
    SELECT position FROM channel_messages WHERE {_OF_CHANNEL} AND done_at IS NOT NULL AND done_at < ?
    ORDER BY position LIMIT {TRIMMED_MAX}
)
"""
_PENDING = f"""
SELECT {_MESSAGE.text} FROM channel_messages WHERE {_OF_CHANNEL} AND done_at IS NULL ORDER BY position LIMIT ?
"""
_SAVE = f"""
UPDATE channel_messages SET {", ".join(f"{name} = ?" for name in _NEW.names)} WHERE tenant_id = ? AND position = ?
"""


class ChannelStore(TenantScope):
    """The channels of one tenant."""

    async def add(self, channel: ChatChannel) -> None:
        """`Conflict` when the name is taken, or there are too many."""

        def write(connection: Connection) -> None:
            refuse_deleted(connection, self._tenant_id)
            if connection.fetch(_COUNT, (self._tenant_id,))[0][0] >= CHANNELS_MAX:
                raise Conflict(f"A tenant has at most {CHANNELS_MAX} channels; delete one first")
            self._check_name(connection, channel)
            connection.execute(_ADD, _CHANNEL.encode(channel))

        await self._database.write(write)

    async def list(self) -> tuple[ChatChannel, ...]:
        return await self._all(decode_channel, _LIST, (self._tenant_id,))

    async def get(self, channel_id: ChannelId) -> ChatChannel | None:
        return await self._first(decode_channel, _GET, (self._tenant_id, channel_id))

    async def change(self, channel_id: ChannelId, modify: Callable[[ChatChannel], ChatChannel]) -> ChatChannel | None:
        """Changes a channel as it is at that moment, and returns it; None when it is gone. `Conflict` for another's name."""

        def write(connection: Connection) -> ChatChannel | None:
            place = (self._tenant_id, channel_id)
            for row in connection.fetch(_GET, place):
                changed = modify(decode_channel(row))
                self._check_name(connection, changed)
                connection.execute(_UPDATE, (*_CHANNEL.encode(changed), *place))
                return changed
            return None

        return await self._database.write(write)

    async def remove(self, channel_id: ChannelId) -> bool:
        """Deletes a channel and its messages that wait; the sessions stay."""

        place = (self._tenant_id, channel_id)
        is_gone = await self._execute(_DELETE, place)
        while await self._execute(_DELETE_MESSAGES, place):
            pass
        return is_gone

    def _check_name(self, connection: Connection, channel: ChatChannel) -> None:
        if connection.fetch(_NAMED, (self._tenant_id, channel.name, channel.channel_id)):
            raise Conflict(f"There is a channel named {channel.name} already")

    async def receive(self, message: ChannelMessage, pending_max: int) -> bool | None:
        """Stores a message; False when it was heard before, None when too many wait already."""
        place = (self._tenant_id, message.channel_id)

        def write(connection: Connection) -> bool | None:
            if connection.fetch(_HEARD, (*place, message.message_key)):
                return False
            if not connection.fetch(_GET, place):
                return None
            if connection.fetch(_PENDING_COUNT, place)[0][0] >= pending_max:
                return None
            connection.execute(_TRIM, (*place, message.heard_at - RETENTION_MS))
            connection.execute(_HEAR, (self._tenant_id, *_NEW.encode(message)))
            return True

        return await self._database.write(write)

    async def pending(self, channel_id: ChannelId, limit: int) -> tuple[ChannelMessage, ...]:
        """Returns messages whose answers have not been delivered, the oldest first."""
        return await self._all(_MESSAGE.decode, _PENDING, (self._tenant_id, channel_id, limit))

    async def save(self, message: ChannelMessage) -> None:
        await self._execute(_SAVE, (*_NEW.encode(message), self._tenant_id, message.position))
