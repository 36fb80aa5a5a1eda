"""Commands — what a peer can ask, and what it is answered. `agentvm.protocol.table` lists them.

A command is a `Command` subclass, whose members are the request's data, and its `Reply`. Those that 1.x does not know
are additive: older clients never send them.
"""

from agentvm.protocol.commands.attachment import AttachmentGet, AttachmentGetReply, AttachmentList, AttachmentListReply
from agentvm.protocol.commands.base import Command, R_co, Reply, SubscribingReply
from agentvm.protocol.commands.image import (
    ImageBuild,
    ImageChange,
    ImageCreate,
    ImageDelete,
    ImageDifference,
    ImageGet,
    ImageIdReply,
    ImageList,
    ImageListReply,
    ImageMessages,
    ImageMessagesReply,
    ImageReply,
    ImageRun,
    ImageRunReply,
    ImageStop,
    ImageUpdate,
    ImageUpdates,
    ImageUpgrade,
    ImageUpgradeReply,
)
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
    "AttachmentGet",
    "AttachmentGetReply",
    "AttachmentList",
    "AttachmentListReply",
    "Command",
    "ImageBuild",
    "ImageChange",
    "ImageCreate",
    "ImageDelete",
    "ImageDifference",
    "ImageGet",
    "ImageIdReply",
    "ImageList",
    "ImageListReply",
    "ImageMessages",
    "ImageMessagesReply",
    "ImageReply",
    "ImageRun",
    "ImageRunReply",
    "ImageStop",
    "ImageUpdate",
    "ImageUpdates",
    "ImageUpgrade",
    "ImageUpgradeReply",
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
