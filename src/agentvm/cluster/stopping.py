"""Stopping — ends turns on the nodes that run them, before their session, image or container is deleted: they are billed, and
have an end."""

import anyio
import msgspec

from agentvm.cluster.mailbox import Answered, Mailbox
from agentvm.cluster.membership import Membership
from agentvm.errors import AgentVMError
from agentvm.errors.cluster import NodeSilent
from agentvm.log import get_logger
from agentvm.model.node import TurnScope
from agentvm.runtime.housekeeping import stop_turns
from agentvm.runtime.runtime import Runtime
from agentvm.runtime.tasks import open_tasks

logger = get_logger(__name__)

STOP = "stop"
"""The kind of these questions; a node of an older release does not understand it."""
STOP_TIMEOUT_SECONDS = 15.0
"""Also while the turns of a node that has just ended are taken over."""
RETRY_INTERVAL_SECONDS = 0.1

_encoder = msgspec.msgpack.Encoder()
_scopes = msgspec.msgpack.Decoder(TurnScope)


class TurnStopper:
    """Asks other nodes to stop turns, and stops those that they ask for."""

    def __init__(self, membership: Membership, mailbox: Mailbox, runtime: Runtime) -> None:
        self._membership, self._mailbox, self._runtime = membership, mailbox, runtime
        mailbox.serving[STOP] = self._serve
        runtime.stop_elsewhere = self.stop

    async def stop(self, scope: TurnScope) -> None:
        """Returns when no other node runs such turns; `NodeSilent` if some go on."""
        with anyio.move_on_after(STOP_TIMEOUT_SECONDS):
            while others := await self._others(scope):
                async with open_tasks() as tasks:
                    for node_id in others & self._membership.up:
                        tasks.start_soon(self._ask, node_id, scope)
                if await self._others(scope):
                    await anyio.sleep(RETRY_INTERVAL_SECONDS)
            return
        raise NodeSilent("A turn that is to be stopped runs on another node, which does not answer; try again in a few seconds")

    async def _others(self, scope: TurnScope) -> frozenset[int]:
        return await self._membership.nodes.runners(scope) - {self._membership.node_id}

    async def _ask(self, node_id: int, scope: TurnScope) -> None:
        try:
            await self._mailbox.ask(node_id, _encoder.encode(scope), STOP)
        except AgentVMError as error:
            logger.warning("turns_not_stopped", node_id=node_id, code=error.code, error=str(error))

    async def _serve(self, body: bytes) -> Answered:
        await stop_turns(self._runtime, _scopes.decode(body))
        return b"", lambda: None
