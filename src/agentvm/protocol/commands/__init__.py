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
from agentvm.protocol.commands.compaction import (
    SessionCompact,
    SessionCompactReply,
    SessionSummaries,
    SessionSummariesReply,
)
from agentvm.protocol.commands.container import (
    ContainerCreate,
    ContainerDelete,
    ContainerDeleteReply,
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
from agentvm.protocol.commands.draft import (
    DraftListed,
    SessionDraft,
    SessionDraftList,
    SessionDraftListReply,
    SessionDraftReply,
    SessionDrafts,
    SessionDraftsReply,
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
from agentvm.protocol.commands.message import MessageEdit, MessageRegenerate, MessageSend, MessageSendReply
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
    SessionFork,
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
    SessionRewind,
    SessionRewindReply,
    SessionRewinds,
    SessionRewindsReply,
    SessionSearch,
    SessionSearchReply,
    SessionSetTitle,
)

__all__ = [
    "AgentDestroy", "AgentDestroyAll", "AgentDestroyReply", "AgentGet", "AgentGetReply", "AgentInterrupt",
    "AgentInterruptReply", "AgentList", "AgentListReply", "AttachmentGet", "AttachmentGetReply", "AttachmentList",
    "AttachmentListReply", "Command", "ContainerCreate", "ContainerDelete", "ContainerDeleteReply",
    "ContainerGet", "ContainerGetReply", "ContainerIdReply", "ContainerList", "ContainerListReply",
    "DefinitionGet", "DefinitionGetReply", "DefinitionList", "DefinitionListReply",
    "DefinitionRegister", "DefinitionRegisterReply", "DraftListed", "ImageBuild", "ImageChange", "ImageCreate",
    "ImageDelete", "ImageDifference", "ImageGet", "ImageIdReply", "ImageList", "ImageListReply", "ImageMessages",
    "ImageMessagesReply", "ImageReply", "ImageRun", "ImageRunReply", "ImageStop", "ImageUpdate", "ImageUpdates",
    "ImageUpgrade", "ImageUpgradeReply", "MessageEdit", "MessageRegenerate", "MessageSend", "MessageSendReply", "R_co",
    "Reply", "ResourceList", "ResourceListReply", "ResourcePublish", "ResourceRegister", "ResourceRegisterReply",
    "ResourceResolve", "ResourceResolveReply", "SessionArchive", "SessionBrowse", "SessionBrowseReply", "SessionCompact",
    "SessionCompactReply", "SessionCreate", "SessionDelete", "SessionDeleteReply", "SessionDraft", "SessionDraftList",
    "SessionDraftListReply", "SessionDraftReply", "SessionDrafts", "SessionDraftsReply", "SessionFork", "SessionGet",
    "SessionHistory", "SessionHistoryReply", "SessionList", "SessionListReply", "SessionMarkRead", "SessionMarkReadReply",
    "SessionMessages", "SessionMessagesReply", "SessionPin", "SessionRelease", "SessionReply", "SessionRestore",
    "SessionResume", "SessionRewind", "SessionRewindReply", "SessionRewinds", "SessionRewindsReply", "SessionSearch",
    "SessionSearchReply", "SessionSetTitle", "SessionSummaries", "SessionSummariesReply", "SubscribingReply",
]  # fmt: skip
