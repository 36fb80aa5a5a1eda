"""AskedStore — the model calls that were asked and are not in the ledger yet."""

from collections.abc import Callable, Sequence
from typing import Any

from agentvm.model.ids import TenantId
from agentvm.model.ledger import AskedCall
from agentvm.storage.sql.connection import Connection, Database

_COLUMNS = (
    "tenant_id, key, call_id, at, user_id, container_id, image_id, session_id, turn_id, driver, model, provider, "
    "own_key, hosted, input_tokens"
)
_ASK = f"""
INSERT INTO asked ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant_id, key) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in _COLUMNS.split(", ")[2:])}
"""
_OF_TURN = f"SELECT {_COLUMNS} FROM asked WHERE tenant_id = ? AND turn_id = ? ORDER BY at, key"
_FORGET = "DELETE FROM asked WHERE tenant_id = ? AND key = ?"
# A call of a turn that is open is settled when that turn goes on.
_LEFT = f"""
SELECT {_COLUMNS} FROM asked
WHERE NOT EXISTS (SELECT 1 FROM turns WHERE turns.turn_id = asked.turn_id AND outcome IS NULL)
ORDER BY at, key
"""


class AskedStore:
    """The model calls of one tenant that were asked and are not in the ledger. `LedgerStore.add` forgets them."""

    def __init__(self, database: Database, tenant_id: TenantId) -> None:
        self._database = database.of(tenant_id)
        self._tenant_id = tenant_id

    async def add(self, call: AskedCall) -> None:
        """In place of one of the same key. The turn's own commit adds calls too."""
        await self._database.write(ask(self._tenant_id, (call,)))

    async def of_turn(self, turn_id: str) -> tuple[AskedCall, ...]:
        """The calls of one turn, in the order of their keys."""

        def read(connection: Connection) -> tuple[AskedCall, ...]:
            return tuple(_decode(row) for row in connection.fetch(_OF_TURN, (self._tenant_id, turn_id)))

        return await self._database.read(read)


def ask(tenant_id: TenantId, calls: Sequence[AskedCall]) -> Callable[[Connection], None]:
    """Calls of a tenant as work for the database."""
    rows = [(tenant_id, *_encode(call)) for call in calls]

    def work(connection: Connection) -> None:
        for row in rows:
            connection.execute(_ASK, row)

    return work


def forget(connection: Connection, tenant_id: TenantId, keys: Sequence[str]) -> None:
    """The calls need not be remembered any more."""
    for key in keys:
        connection.execute(_FORGET, (tenant_id, key))


def read_left(connection: Connection) -> tuple[AskedCall, ...]:
    """Calls of every tenant that belong to no open turn."""
    return tuple(_decode(row) for row in connection.fetch(_LEFT))


def _encode(call: AskedCall) -> tuple[str | int | None, ...]:
    where = (call.container_id, call.image_id, call.session_id, call.turn_id)
    asked = (call.driver, call.model, call.provider, int(call.own_key), int(call.hosted), call.input_tokens)
    return (call.key, call.call_id, call.at, call.user_id, *where, *asked)


def _decode(row: tuple[Any, ...]) -> AskedCall:
    tenant_id, key, call_id, at, user_id, container_id, image_id, session_id, turn_id, *asked = row
    driver, model, provider, own_key, hosted, input_tokens = asked
    return AskedCall(
        key=key,
        call_id=call_id,
        at=at,
        tenant_id=tenant_id,
        user_id=user_id,
        container_id=container_id,
        image_id=image_id,
        session_id=session_id,
        turn_id=turn_id,
        driver=driver,
        model=model,
        provider=provider,
        own_key=bool(own_key),
        hosted=bool(hosted),
        input_tokens=input_tokens,
    )
