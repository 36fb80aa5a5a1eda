"""Sent calls — model calls whose requests were sent, and that are not in the ledger yet."""

from collections.abc import Callable, Sequence

from agentvm.model.ids import TenantId
from agentvm.model.ledger import SentCall
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.records import Columns, TenantScope

CALL = Columns(SentCall, without=("tenant_id",))
_ASK = f"""
INSERT INTO asked (tenant_id, node_id, {CALL.text}) VALUES (?, ?, {CALL.marks})
ON CONFLICT (tenant_id, key) DO UPDATE
SET node_id = excluded.node_id, {", ".join(f"{name} = excluded.{name}" for name in CALL.names[1:])}
"""
_STORED = Columns(SentCall)
_OF_TURN = f"SELECT {_STORED.text} FROM asked WHERE tenant_id = ? AND turn_id = ? ORDER BY at, key"
_FORGET = "DELETE FROM asked WHERE tenant_id = ? AND key = ?"
# A call of a turn that is open is settled when that turn continues.
_LEFT = f"""
SELECT {_STORED.text} FROM asked
WHERE NOT EXISTS (SELECT 1 FROM turns WHERE turns.turn_id = asked.turn_id AND outcome IS NULL)
ORDER BY at, key
"""
_LEFT_BY_ENDED = _LEFT.replace("ORDER BY", "AND node_id NOT IN (SELECT nodes.node_id FROM nodes WHERE state = 'up') ORDER BY")


class SentCallStore(TenantScope):
    """The model calls of one tenant that were asked and are not in the ledger. `LedgerStore.add` forgets them."""

    async def add(self, call: SentCall) -> None:
        """Adds a call, in place of one of the same key. The turn's own commit adds calls too."""
        await self._database.write(ask(self._tenant_id, (call,), self._database.node_id))

    async def of_turn(self, turn_id: str) -> tuple[SentCall, ...]:
        """The calls of one turn, in the order of their keys."""
        return await self._all(_STORED.decode, _OF_TURN, (self._tenant_id, turn_id))


def ask(tenant_id: TenantId, calls: Sequence[SentCall], node_id: int) -> Callable[[Connection], None]:
    """Calls of a tenant that a node makes, as work for the database."""
    rows = [(tenant_id, node_id, *CALL.encode(call)) for call in calls]

    def work(connection: Connection) -> None:
        for row in rows:
            connection.execute(_ASK, row)

    return work


def forget(connection: Connection, tenant_id: TenantId, keys: Sequence[str]) -> None:
    """Deletes calls that are in the ledger."""
    for key in keys:
        connection.execute(_FORGET, (tenant_id, key))


def read_left(connection: Connection) -> tuple[SentCall, ...]:
    """Calls of every tenant that belong to no open turn."""
    return tuple(map(_STORED.decode, connection.fetch(_LEFT)))


def read_left_by_ended(connection: Connection) -> tuple[SentCall, ...]:
    """The same, of nodes that have ended."""
    return tuple(map(_STORED.decode, connection.fetch(_LEFT_BY_ENDED)))
