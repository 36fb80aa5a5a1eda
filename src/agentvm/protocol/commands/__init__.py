"""Commands — what a peer can ask, and what it is answered. `agentvm.protocol.table` lists them.

A command is a `Command` subclass, whose members are the request's data, and its `Reply`. Those that 1.x does not know
are additive: older clients never send them.
"""

from agentvm.protocol.commands.base import Command, R_co, Reply, SubscribingReply
from agentvm.protocol.commands.resource import (
    ResourceList,
    ResourceListReply,
    ResourcePublish,
    ResourceRegister,
    ResourceRegisterReply,
    ResourceResolve,
    ResourceResolveReply,
)

__all__ = [
    "Command",
    "R_co",
    "Reply",
    "ResourceList",
    "ResourceListReply",
    "ResourcePublish",
    "ResourceRegister",
    "ResourceRegisterReply",
    "ResourceResolve",
    "ResourceResolveReply",
    "SubscribingReply",
]
