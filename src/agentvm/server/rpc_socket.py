"""RPC socket — a socket whose peer speaks AgentX 2.x: how it becomes one, and how its frames are handled.

The first frame of a peer tells its dialect. A 2.x peer that reconnects sends no frame, and must still receive events; a 1.9
peer acknowledges the probe at once. So a peer that is silent for a second is taken for 2.x until its first frame.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from agentvm.errors import AgentVMError, InvalidInput
from agentvm.operations.rpc_dispatch import answer_rpc
from agentvm.protocol.connection import PeerConnection, RpcReceived
from agentvm.protocol.dialect_v1 import encode_event
from agentvm.protocol.dialect_v2 import encode_event_v2
from agentvm.protocol.rpc import PARSE_ERROR_CODE, RpcProblem, encode_problem
from agentvm.protocol.rpc_peer import RpcPeer
from agentvm.runtime.channel import MAX_UNREAD_BYTES
from agentvm.sessions.images import DEFAULT_CONTAINER
from agentvm.vm import Peer

SILENCE_SECONDS: Final = 1.0
"""After this time a peer that has sent nothing is taken for one of 2.x."""

Count = Callable[[Peer], Awaitable[AgentVMError | None]]
"""Counts a request; returns the quota error, if it is one too many."""


def serve_rpc(peer: Peer, connection: PeerConnection, *, is_presumed: bool = False) -> RpcPeer:
    """From now on the peer is told everything in 2.x, of all the sessions of its containers: 2.x has no subscriptions."""
    if connection.rpc is None:
        connection.rpc = RpcPeer(is_presumed=is_presumed)
        peer.channel.encode = encode_event_v2
        is_bound = peer.principal.containers is not None
        for container_id in peer.principal.named_containers if is_bound else (DEFAULT_CONTAINER,):
            peer.join(container_id, follow=True)
    connection.rpc.is_presumed = is_presumed
    return connection.rpc


def presume_rpc(peer: Peer, connection: PeerConnection) -> None:
    """Called after a second: a peer that has sent nothing until now is taken for one of 2.x."""
    if not connection.has_spoken:
        serve_rpc(peer, connection, is_presumed=True)


def serve_events(peer: Peer, connection: PeerConnection) -> None:
    """The peer was taken for one of 2.x, and its first frame says that it is one of 1.x."""
    if connection.rpc is not None:
        connection.rpc = None
        broadcaster = peer.vm.runtime.broadcaster
        broadcaster.detach(peer.channel)
        broadcaster.attach(peer.channel)
        peer.channel.encode = encode_event
        if peer.principal.home is not None:
            peer.join(peer.principal.home)


async def answer_calls(
    peer: Peer, connection: PeerConnection, received: RpcReceived, refusal: AgentVMError | None, count: Count
) -> None:
    """Answers the requests of a frame one after another, as if each had come alone. The first is counted already."""
    rpc = serve_rpc(peer, connection)
    for number, call in enumerate(received.calls):
        if number:
            if peer.channel.unread > MAX_UNREAD_BYTES:
                await peer.channel.read()
            refusal = refusal or await count(peer)
        if peer.channel.closing is not None:
            return
        await answer_rpc(peer, rpc, call, refusal)


def refuse_noise(peer: Peer, error: InvalidInput) -> None:
    """Answers a frame that is not JSON-RPC."""
    peer.channel.send(encode_problem(None, RpcProblem(PARSE_ERROR_CODE, str(error))))
