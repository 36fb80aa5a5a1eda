"""LedgerStore — usage, price and credit of one tenant.

The database keeps the wallet: triggers add each new row to it in the transaction that adds the row, and refuse to change or
drop a row. So a wallet is one row to read and always the sum of the entries.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from agentvm.errors import Conflict, InvalidInput, shorten
from agentvm.model.ids import ContainerId, TenantId, TurnId, UserId
from agentvm.model.ledger import TIER_DRIVER, Credit, LedgerEntry, TreeUse, TurnCharge, UsageRow, Wallet
from agentvm.model.money import dollars
from agentvm.model.usage import Usage
from agentvm.storage.sql.accounts.sent_calls import forget
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.dialect import DAY, HOUR, MONTH, ORDERED_JOIN, items_of, total
from agentvm.storage.sql.records import Columns, TenantScope

LIGHT_TURNS_MAX = 100
"""The charges of more turns than this are read by one reader of the tenant at a time."""

ENTRY = Columns(LedgerEntry, without=("tenant_id",), inline="usage")
_STORED = Columns(LedgerEntry, inline="usage")
_ENTER = f"""
INSERT INTO ledger (tenant_id, node_id, {ENTRY.text}) VALUES (?, ?, {ENTRY.marks}) ON CONFLICT (tenant_id, key) DO NOTHING
"""
# The plus keeps SQLite from looking by time, which would have to be sorted again for each page.
_LIST = f"""
SELECT position, {_STORED.text} FROM ledger
WHERE tenant_id = ? AND position > ? AND +at >= ? AND +at < ? ORDER BY position LIMIT ?
"""
_LIST_NEWEST = _LIST.replace("position >", "position <").replace("ORDER BY position", "ORDER BY position DESC")
_OF_TURN = f"SELECT {_STORED.text} FROM ledger WHERE tenant_id = ? AND turn_id = ? ORDER BY position"
_CHARGES = "SELECT driver, model, price FROM ledger WHERE tenant_id = ? AND turn_id = ? ORDER BY position"
_PRICES_BELOW = f"""
SELECT l.price FROM sessions AS s {ORDERED_JOIN} turns AS t USING (session_key)
{ORDERED_JOIN} ledger AS l ON l.tenant_id = s.tenant_id AND l.turn_id = t.turn_id
WHERE s.tenant_id = ? AND s.root_turn = ?
"""
_USAGE, _WALLET, _CREDIT = Columns(Usage), Columns(Wallet), Columns(Credit)
_TURN_TOTAL = f"""
SELECT {", ".join("coalesce(max(estimated), 0)" if name == "estimated" else total(name) for name in (*_USAGE.names, "price"))}
FROM ledger WHERE tenant_id = ? AND turn_id = ?
"""
# A turn of people and the turns of all sub-agents below it, but for one of them.
_TREE = f"""
SELECT t.turn_id, t.session_key FROM sessions AS s {ORDERED_JOIN} turns AS t USING (session_key)
WHERE s.tenant_id = :tenant AND s.root_turn = :root
UNION
SELECT t.turn_id, t.session_key FROM turns AS t {ORDERED_JOIN} sessions AS s USING (session_key)
WHERE s.tenant_id = :tenant AND t.turn_id = :root
"""
_TREE_TOKENS = "input_tokens + output_tokens + cache_read_tokens + cache_write_tokens"
_TREE_USE = f"""
WITH tree AS ({_TREE})
SELECT {total(f"CASE WHEN l.driver = '{TIER_DRIVER}' THEN 0 ELSE 1 END")}, {total(_TREE_TOKENS)},
       {total("coalesce(l.cost, l.price, 0)")}, {total("l.price")},
       (SELECT count(*) FROM tree {ORDERED_JOIN} placed_calls AS p USING (session_key, turn_id) WHERE turn_id <> :own)
FROM tree {ORDERED_JOIN} ledger AS l ON l.tenant_id = :tenant AND l.turn_id = tree.turn_id
WHERE tree.turn_id <> :own
"""
_GET_WALLET = f"SELECT {_WALLET.text} FROM wallets WHERE tenant_id = ?"
_ADD_CREDIT = f"""
INSERT INTO credits (tenant_id, {_CREDIT.text}) VALUES (?, {_CREDIT.marks}) ON CONFLICT (tenant_id, reference) DO NOTHING
"""
_CREDITS = f"SELECT {_CREDIT.text} FROM credits WHERE tenant_id = ? ORDER BY at DESC, position DESC LIMIT ?"

DIMENSIONS: dict[str, tuple[str, str]] = {
    "user": ("user_id", "user_id"),
    "key": ("key_id", "key_id"),
    "container": ("container_id", "container_id"),
    "image": ("image_id", "image_id"),
    "session": ("session_id", "session_id"),
    "driver": ("driver", "driver"),
    "model": ("model", "model"),
    "hour": ("hour", HOUR),
    "day": ("day", DAY),
    "month": ("month", MONTH),
}
"""Dimensions of usage: the field of `UsageRow` and its SQL expression. No other text gets into a query."""

_TOKENS = tuple(name for name in _USAGE.names if name != "estimated")
_SUMS: dict[str, str] = {
    "calls": "count(*)",
    **{name: total(name) for name in _TOKENS},
    "estimated_calls": total("estimated"),
    "unpriced_calls": "count(*) - count(price)",
    "cost": total("cost"),
    "price": total("price"),
    "wall_ms": total("wall_ms"),
}
_TIME_MAX = 2**63 - 1


class LedgerStore(TenantScope):
    """The ledger and the wallet of one tenant."""

    async def add(self, entries: Sequence[LedgerEntry], *, answered: Sequence[str] = ()) -> int:
        """How many were new; those of the same key are left alone. The turn's own commit adds entries too.

        In the same commit the calls that were asked under the keys `answered` are no longer remembered.
        """
        return await self._database.write(enter(self._tenant_id, entries, self._database.node_id, answered))

    async def list(
        self, *, after: int = 0, limit: int = 1000, since: int = 0, until: int | None = None, newest: bool = False
    ) -> tuple[tuple[int, LedgerEntry], ...]:
        """Entries in the order they were added, or the newest first, with their numbers; those after the number `after`."""
        start = after or _TIME_MAX if newest else after
        page = (self._tenant_id, start, since, _TIME_MAX if until is None else until, limit)
        return await self._all(lambda row: (row[0], _STORED.decode(row[1:])), _LIST_NEWEST if newest else _LIST, page)

    async def usage(
        self,
        *,
        by: Sequence[str],
        since: int = 0,
        until: int | None = None,
        user_id: UserId | None = None,
        containers: Sequence[ContainerId] | None = None,
        node_id: int | None = None,
    ) -> tuple[UsageRow, ...]:
        """Sums by some of user, key, container, image, session, driver, model, hour, day, month; one row without any of them.

        `InvalidInput` for another word. `containers` are exact names; without any there is nothing to sum. With `node_id` the
        entries of that node of a cluster.
        """
        members, query = _usage_query(
            by, of_user=user_id is not None, of_containers=containers is not None, of_node=node_id is not None
        )
        parameters: list[Any] = [self._tenant_id, since, _TIME_MAX if until is None else until]
        if user_id is not None:
            parameters.append(user_id)
        if containers is not None:
            parameters.append(msgspec.json.encode(containers).decode())
        if node_id is not None:
            parameters.append(node_id)

        def read(connection: Connection) -> tuple[UsageRow, ...]:
            rows = connection.fetch(query, tuple(parameters))
            return tuple(UsageRow(**dict(zip(members, row, strict=True))) for row in rows)

        # One sum is part of admitting a turn; a table of them is a report.
        return await self._database.read(read, heavy=bool(by))

    async def of_turn(self, turn_id: str) -> tuple[LedgerEntry, ...]:
        """The calls of one turn, in the order they were added."""
        return await self._all(_STORED.decode, _OF_TURN, (self._tenant_id, turn_id))

    async def turn_total(self, turn_id: str) -> tuple[Usage, int]:
        """The usage and the price of the calls of one turn."""
        rows = await self._database.read(lambda connection: connection.fetch(_TURN_TOTAL, (self._tenant_id, turn_id)))
        *usage, price = rows[0]
        return _USAGE.decode(usage), price

    async def tree_use(self, root: TurnId, own: TurnId) -> TreeUse:
        """The use of the turns on one budget but for one of them, as far as it is stored."""
        values = {"tenant": self._tenant_id, "root": root, "own": own}
        rows = await self._database.read(lambda connection: connection.fetch(_TREE_USE, values))
        steps, tokens, cost, price, tool_calls = rows[0]
        return TreeUse(steps=steps, tokens=tokens, cost=cost, tool_calls=tool_calls, price=price)

    async def charges(self, turn_ids: Sequence[str]) -> dict[str, TurnCharge]:
        """Returns the price of turns with their sub-agents, and the model that answered last.

        A turn without any call is left out.
        """

        def read(connection: Connection) -> dict[str, TurnCharge]:
            charges = {}
            for turn_id in turn_ids:
                if calls := connection.fetch(_CHARGES, (self._tenant_id, turn_id)):
                    below = connection.fetch(_PRICES_BELOW, (self._tenant_id, turn_id))
                    prices = [price for *_, price in (*calls, *below) if price is not None]
                    models = [model for driver, model, _ in calls if driver != TIER_DRIVER]
                    charges[turn_id] = TurnCharge(price=sum(prices) if prices else None, model=models[-1] if models else None)
            return charges

        return await self._database.read(read, heavy=len(turn_ids) > LIGHT_TURNS_MAX)

    async def credit(self, credit: Credit) -> bool:
        """Adds money, once per reference; False when it was there. Negative takes money back: `Conflict` if there is less.

        That holds also for those who take back at once.
        """

        def write(connection: Connection) -> bool:
            added = connection.execute(_ADD_CREDIT, (self._tenant_id, *_CREDIT.encode(credit))) == 1
            # Looked at after it was added, within the transaction: of two who take back, the second sees the first.
            if added and credit.amount < 0 and (left := self._wallet(connection).balance) < 0:
                raise Conflict(f"The wallet has {dollars(left - credit.amount)}; no more can be withdrawn")
            return added

        return await self._database.write(write)

    async def wallet(self) -> Wallet:
        return await self._database.read(self._wallet)

    def _wallet(self, connection: Connection) -> Wallet:
        return next(map(_WALLET.decode, connection.fetch(_GET_WALLET, (self._tenant_id,))), Wallet())

    async def credits(self, *, limit: int = 100) -> tuple[Credit, ...]:
        """Newest first."""
        return await self._all(_CREDIT.decode, _CREDITS, (self._tenant_id, limit))


def enter(
    tenant_id: TenantId, entries: Sequence[LedgerEntry], node_id: int, answered: Sequence[str] = ()
) -> Callable[[Connection], int]:
    """Entries of a node as work for the database, which returns how many were new; `answered` calls are removed from the sent
    ones."""
    rows = [(tenant_id, node_id, *ENTRY.encode(entry)) for entry in entries]

    def work(connection: Connection) -> int:
        new = 0
        for row in rows:
            new += connection.execute(_ENTER, row)
        forget(connection, tenant_id, answered)
        return new

    return work


def _usage_query(by: Sequence[str], *, of_user: bool, of_containers: bool, of_node: bool) -> tuple[tuple[str, ...], str]:
    """The members of each row, and the query for them."""
    if unknown := [name for name in by if name not in DIMENSIONS]:
        raise InvalidInput(f"Usage is not counted by {shorten(unknown[0])}; it is by any of {', '.join(DIMENSIONS)}")
    groups = dict(DIMENSIONS[name] for name in by)
    columns = groups | _SUMS
    where = "tenant_id = ? AND at >= ? AND at < ?"
    if of_user:
        where += " AND user_id = ?"
    if of_containers:
        where += f" AND container_id IN ({items_of('?')})"
    if of_node:
        where += " AND node_id = ?"
    query = f"SELECT {', '.join(columns.values())} FROM ledger WHERE {where}"
    if groups:
        # By number, because a name could mean a column as well as its group.
        numbers = ", ".join(str(number) for number in range(1, len(groups) + 1))
        query += f" GROUP BY {numbers} ORDER BY {numbers}"
    return tuple(columns), query
