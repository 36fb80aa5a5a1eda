"""Commands — what a peer can ask, and what it is answered. `agentvm.protocol.table` lists them.

A command is a `Command` subclass, whose members are the request's data, and its `Reply`. Those that 1.x does not know
are additive: older clients never send them.
"""

from agentvm.protocol.commands.agent import (
    AgentDestroy,
    AgentDestroyAll,
    AgentDestroyReply,
    AgentGet,
    AgentGetReply,
    AgentInterrupt,
    AgentInterruptReply,
    AgentList,
    AgentListReply,
)
from agentvm.protocol.commands.attachment import AttachmentGet, AttachmentGetReply, AttachmentList, AttachmentListReply
from agentvm.protocol.commands.base import Command, R_co, Reply, SubscribingReply
from agentvm.protocol.commands.container import (
    ContainerCreate,
    ContainerGet,
    ContainerGetReply,
    ContainerIdReply,
    ContainerList,
    ContainerListReply,
)
from agentvm.protocol.commands.definition import (
    DefinitionGet,
    DefinitionGetReply,
    DefinitionList,
    DefinitionListReply,
    DefinitionRegister,
    DefinitionRegisterReply,
)
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
from agentvm.protocol.commands.message import MessageSend, MessageSendReply
from agentvm.protocol.commands.resource import (
    ResourceList,
    ResourceListReply,
    ResourcePublish,
    ResourceRegister,
    ResourceRegisterReply,
    ResourceResolve,
    ResourceResolveReply,
)
from agentvm.protocol.commands.session import (
    SessionArchive,
    SessionBrowse,
    SessionBrowseReply,
    SessionCreate,
    SessionDelete,
    SessionDeleteReply,
    SessionGet,
    SessionHistory,
    SessionHistoryReply,
    SessionList,
    SessionListReply,
    SessionMarkRead,
    SessionMarkReadReply,
    SessionMessages,
    SessionMessagesReply,
    SessionPin,
    SessionRelease,
    SessionReply,
    SessionRestore,
    SessionResume,
    SessionSearch,
    SessionSearchReply,
    SessionSetTitle,
)

__all__ = [
    "AgentDestroy", "AgentDestroyAll", "AgentDestroyReply", "AgentGet", "AgentGetReply", "AgentInterrupt",
    "AgentInterruptReply", "AgentList", "AgentListReply", "AttachmentGet", "AttachmentGetReply", "AttachmentList",
    "AttachmentListReply", "Command", "ContainerCreate", "ContainerGet",
    "ContainerGetReply", "ContainerIdReply", "ContainerList", "ContainerListReply", "DefinitionGet", "DefinitionGetReply",
    "DefinitionList", "DefinitionListReply", "DefinitionRegister", "DefinitionRegisterReply", "ImageBuild", "ImageChange",
    "ImageCreate", "ImageDelete", "ImageDifference", "ImageGet", "ImageIdReply", "ImageList", "ImageListReply",
    "ImageMessages", "ImageMessagesReply", "ImageReply", "ImageRun", "ImageRunReply", "ImageStop", "ImageUpdate",
    "ImageUpdates", "ImageUpgrade", "ImageUpgradeReply", "MessageSend", "MessageSendReply", "R_co", "Reply",
    "ResourceList", "ResourceListReply", "ResourcePublish", "ResourceRegister", "ResourceRegisterReply",
    "ResourceResolve", "ResourceResolveReply", "SessionArchive", "SessionBrowse", "SessionBrowseReply", "SessionCreate",
    "SessionDelete", "SessionDeleteReply", "SessionGet", "SessionHistory", "SessionHistoryReply", "SessionList",
    "SessionListReply", "SessionMarkRead", "SessionMarkReadReply", "SessionMessages", "SessionMessagesReply",
    "SessionPin", "SessionRelease", "SessionReply", "SessionRestore", "SessionResume", "SessionSearch",
    "SessionSearchReply", "SessionSetTitle", "SubscribingReply",
]  # fmt: skip
