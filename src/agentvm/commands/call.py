"""Call — one command being carried out for one peer."""

from dataclasses import dataclass

from agentvm.operations.context import Context
from agentvm.vm import Peer


@dataclass(slots=True, kw_only=True, eq=False)
class Call(Context):
    """A context that has a peer."""

    peer: Peer


def call_of(peer: Peer, request_id: str = "") -> Call:
    return Call(vm=peer.vm, workspace=peer.workspace, peer=peer, request_id=request_id)
