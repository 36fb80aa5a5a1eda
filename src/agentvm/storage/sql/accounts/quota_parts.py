"""Quota parts — limits that apply to all nodes of a cluster together: each node reserves a part, and uses it locally.

Theory of operation. A row is the part of a limit that a node may use in a window, with its use so far; the row of node 0 is the
use of nodes that have ended, and of servers before them. The sum of the rows never exceeds the limit, and no node uses more
than its row: so all of them together do not either. A node that needs more takes it in one transaction, with a tenth of the
rest: near the limit parts become as small as single calls. When a node has ended, and its sessions were taken over, the ledger
knows its use; that is added to the row of node 0, and the rest is free again.
"""

from collections.abc import Sequence
from typing import NamedTuple

from agentvm.model.ids import TenantId
from agentvm.model.quota_part import EARLIER_MS, WALLET, LimitKey, PartNeed
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.dialect import total
from agentvm.storage.sql.records import TenantScope

SHARE = 10
"""A node that takes a part gets besides the rest of the limit divided by this, so that it need not ask soon again."""

_TOKENS = total("input_tokens + output_tokens + cache_read_tokens + cache_write_tokens")
_PRICE = total("price")
_ENTERED = {
    "tokens_per_day": _TOKENS,
    "tokens_per_month": _TOKENS,
    "budget_per_month": _PRICE,
    "sandbox_seconds_per_day": f"({total('wall_ms')} + 999) / 1000",
    WALLET: _PRICE,
}
"""Metrics whose use is in the ledger, with its sum."""
_PARTS = "SELECT node_id, amount FROM quota_parts WHERE tenant_id = ? AND metric = ? AND user_id = ? AND begins = ?"
_UP = "SELECT node_id, started_at FROM nodes WHERE state = 'up'"
_IS_LEFT = """
SELECT 1 WHERE EXISTS (SELECT 1 FROM sessions WHERE runner = ?1) OR EXISTS (SELECT 1 FROM sessions WHERE tail_of = ?1)
    OR EXISTS (SELECT 1 FROM asked WHERE node_id = ?1)
"""
_USED = "SELECT node_id, {amount} FROM ledger WHERE tenant_id = ? AND at >= ? GROUP BY node_id"
_USED_BY = "SELECT node_id, {amount} FROM ledger WHERE tenant_id = ? AND at >= ? AND user_id = ? GROUP BY node_id"
_EXPORTED = "SELECT bytes FROM exports WHERE tenant_id = ? AND day = ?"
_WALLET = "SELECT credited, spent FROM wallets WHERE tenant_id = ?"
_PUT = """
INSERT INTO quota_parts (tenant_id, metric, user_id, begins, node_id, amount, ends) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant_id, metric, user_id, begins, node_id) DO UPDATE SET amount = excluded.amount
"""
_LOWER = """
UPDATE quota_parts SET amount = ?
WHERE tenant_id = ? AND metric = ? AND user_id = ? AND begins = ? AND node_id = ? AND amount > ?
"""
_DROP = "DELETE FROM quota_parts WHERE tenant_id = ? AND metric = ? AND user_id = ? AND begins = ? AND node_id = ?"


class ClaimedPart(NamedTuple):
    """The part of a node: its size, its size before, the parts of others, and the other nodes that have any."""

    amount: int
    before: int
    elsewhere: int
    holders: tuple[int, ...]


class PartStore(TenantScope):
    """The parts that nodes have of the limits of one tenant."""

    async def take(self, key: LimitKey, need: PartNeed) -> ClaimedPart:
        """Enlarges the part of this node as far as the limit allows; it is never made smaller."""
        node_id, tenant_id = self._database.node_id, self._tenant_id
        place = (tenant_id, *key[:3])

        def work(connection: Connection) -> ClaimedPart:
            parts = {int(node): int(amount) for node, amount in connection.fetch(_PARTS, place)}
            up = {int(node): int(started_at) for node, started_at in connection.fetch(_UP)}
            if 0 not in parts or any(node and node not in up for node in parts):
                parts = _settle(connection, tenant_id, key, parts, up)
            before = parts.pop(node_id, 0)
            used_by_others, limit = sum(parts.values()), need.limit
            if key.metric == WALLET:
                limit = next((int(credited) for credited, _ in connection.fetch(_WALLET, (tenant_id,))), 0)
            adjusted = need._replace(used=max(need.used, before)) if need.is_new and key.is_counted_here else need
            amount = _amount(adjusted, before, used_by_others, limit)
            if amount != before:
                connection.execute(_PUT, (*place, node_id, amount, key.ends))
            holders = tuple(sorted(node for node, part in parts.items() if node and part))
            return ClaimedPart(amount, before, used_by_others, holders)

        return await self._database.write(work)

    async def lower(self, parts: Sequence[tuple[LimitKey, int]]) -> None:
        """Returns unneeded parts of limits: this node's parts become as small as given."""
        node_id, tenant_id = self._database.node_id, self._tenant_id

        def work(connection: Connection) -> None:
            for key, amount in parts:
                connection.execute(_LOWER, (amount, tenant_id, *key[:3], node_id, amount))

        await self._database.write(work)


def _amount(need: PartNeed, before: int, used_by_others: int, limit: int | None) -> int:
    needed, least = need.used + need.adding, max(before, need.used)
    if needed <= least:
        return least
    if limit is None:
        return needed + max(0, (need.soft or 0) - used_by_others - needed) // SHARE
    room = limit - used_by_others
    if needed <= room:
        return needed + (room - needed) // SHARE
    if need.how == "forced":
        return needed
    return max(least, room) if need.how == "partly" else least


def _settle(
    connection: Connection, tenant_id: TenantId, key: LimitKey, parts: dict[int, int], up: dict[int, int]
) -> dict[int, int]:
    """Adds up the use of nodes that have ended, for the row of node 0; the others start with their own entries."""
    ended = [node for node in parts if node and node not in up]
    if 0 in parts and (key.is_counted_here or any(connection.fetch(_IS_LEFT, (node,)) for node in ended)):
        # Not known what they have used, or not yet: all of their parts.
        return parts
    used = _used(connection, tenant_id, key, up)
    remaining = {node: max(amount, parts.get(node, 0)) for node, amount in used.items() if node in up}
    new = {node: amount for node, amount in parts.items() if node in up} | remaining
    new[0] = sum(amount for node, amount in used.items() if node not in up)
    for node in ended:
        connection.execute(_DROP, (tenant_id, *key[:3], node))
    for node, amount in new.items():
        if parts.get(node) != amount:
            connection.execute(_PUT, (tenant_id, *key[:3], node, amount, key.ends))
    return new


def _used(connection: Connection, tenant_id: TenantId, key: LimitKey, up: dict[int, int]) -> dict[int, int]:
    """The use of a limit by nodes, as far as it is stored; under 0 that of no node in particular."""
    entered = _ENTERED.get(key.metric)
    if entered is None:
        if key.metric == "export_bytes_per_day":
            return {0: sum(int(size) for (size,) in connection.fetch(_EXPORTED, (tenant_id, key.begins)))}
        return {}
    begins = key.begins
    if key.metric == WALLET:
        # The whole ledger may be long: what was spent is known, and of that only the part of the nodes is needed.
        begins = min(up.values(), default=0) - EARLIER_MS
    of_user = (key.user_id,) if key.user_id else ()
    query = (_USED_BY if of_user else _USED).format(amount=entered)
    used = {int(node): int(amount) for node, amount in connection.fetch(query, (tenant_id, begins, *of_user))}
    if key.metric == WALLET:
        used = {node: amount for node, amount in used.items() if node in up}
        spent = sum(int(spent) for _, spent in connection.fetch(_WALLET, (tenant_id,)))
        used[0] = spent - sum(used.values())
    return used
