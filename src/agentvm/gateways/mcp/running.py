"""Running calls — the turns of calls that run, by the ids that their clients gave them, so that a client can cancel one.

In the era of the handshake a client does not close the request that it gives up: it sends a notification with its id. The ids
of two clients are the same numbers, so each handshake tells a name (`Mcp-Session-Id`) that keeps them apart. Nothing else
depends on it, and no name is refused. The names of running calls are stored: the notification may reach another node.
"""

import hashlib
from typing import Any, Final

from agentvm.errors import NotFound
from agentvm.gateways.talk import SentTurn, Talk
from agentvm.model.ids import ContainerId
from agentvm.model.session import Alias
from agentvm.storage.sql.aliases import NamedQuery

SESSION_HEADER: Final = "mcp-session-id"
CANCELLED: Final = "notifications/cancelled"
_CALLS: Final = "mcp.call"
_DIGEST_CHARACTERS: Final = 24
_SAME_MAX: Final = 10
"""Calls of one id that are looked at: there is one, unless a client uses an id again."""


class RunningCall:
    """One call of a client, while it runs; of a client without a name it is none."""

    def __init__(self, talk: Talk, session_name: str | None, call_id: str | int) -> None:
        self._talk = talk
        named = hashlib.sha256(repr((session_name, call_id)).encode()).hexdigest()[:_DIGEST_CHARACTERS]
        self._gateway = None if session_name is None else f"{_CALLS}:{named}"

    async def begin(self, sent: SentTurn) -> None:
        if self._gateway is not None:
            aliases = self._talk.aliases(sent.turn.container_id)
            await aliases.put(Alias(self._gateway, sent.turn_id), sent.session_id, self._talk.vm.clock())

    async def end(self, sent: SentTurn) -> None:
        if self._gateway is not None:
            await self._talk.aliases(sent.turn.container_id).take(Alias(self._gateway, sent.turn_id))

    async def cancel(self, container_id: ContainerId) -> None:
        """Stops the turn of the call, if it has one in that container."""
        if self._gateway is None:
            return
        query = NamedQuery(order="created", limit=_SAME_MAX)
        for named in await self._talk.aliases(container_id).list(self._gateway, query):
            turn = await self._talk.turn(named.external)
            if turn.outcome is None:
                await self._talk.stop(await self._talk.sent(turn))


async def cancel_call(talk: Talk, params: dict[str, Any], session_name: str | None, container_id: ContainerId) -> None:
    """Carries out the notification that a client has cancelled a call. A call that has ended is not changed."""
    call_id = params.get("requestId")
    if isinstance(call_id, str | int):
        try:
            await RunningCall(talk, session_name, call_id).cancel(container_id)
        except NotFound:
            # Its session was deleted meanwhile.
            return
