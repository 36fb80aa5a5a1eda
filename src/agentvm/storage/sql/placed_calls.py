"""Placed calls — the reasons of tool calls, as rows of their sessions."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from agentvm.model.ids import SessionId, TurnId
from agentvm.model.placed_call import PlacedCall
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.records import TenantScope

_ADD = """
INSERT INTO placed_calls (session_key, turn_id, call_id, body) VALUES (?, ?, ?, ?)
ON CONFLICT (session_key, turn_id, call_id) DO UPDATE SET body = excluded.body
"""
_OF_TURN = """
SELECT p.body FROM sessions AS s JOIN placed_calls AS p USING (session_key)
WHERE s.tenant_id = ? AND s.session_id = ? AND p.turn_id = ? ORDER BY p.placed_key
"""

_decode = msgspec.json.Decoder(PlacedCall).decode


class PlacedCallStore(TenantScope):
    """The reasons of the tool calls of one tenant."""

    async def list_turn(self, session_id: SessionId, turn_id: TurnId) -> tuple[PlacedCall, ...]:
        """The calls of a turn, in the order they ended."""
        return await self._all(lambda row: _decode(row[0]), _OF_TURN, (self._tenant_id, session_id, turn_id))


def write_placed_calls(placed: Sequence[PlacedCall]) -> Callable[[Connection, Any], None]:
    """Returns the part of a commit that is about the reasons of calls, encoded."""
    encoded = [(call.turn_id, call.call_id, msgspec.json.encode(call)) for call in placed]

    def work(connection: Connection, session_key: Any) -> None:
        for row in encoded:
            connection.execute(_ADD, (session_key, *row))

    return work
