"""Table — the one list of commands. Every dialect, the client and the reference documentation follow it.

It is generic over what carries a command out; `agentvm.commands.dispatch` fills it, and a command without an implementation
is a type error there.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields
from typing import Generic, TypeVar

from agentvm.protocol import commands as ask

P = TypeVar("P")
C = TypeVar("C")
R = TypeVar("R")
Answer = Callable[[P, C], Awaitable[R]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandTable(Generic[P]):
    """One implementation per command; the field's name is the command's."""

    container_create: Answer[P, ask.ContainerCreate, ask.ContainerIdReply]
    container_get: Answer[P, ask.ContainerGet, ask.ContainerGetReply]
    container_list: Answer[P, ask.ContainerList, ask.ContainerListReply]
    container_delete: Answer[P, ask.ContainerDelete, ask.ContainerDeleteReply]
    definition_list: Answer[P, ask.DefinitionList, ask.DefinitionListReply]
    definition_get: Answer[P, ask.DefinitionGet, ask.DefinitionGetReply]
    definition_register: Answer[P, ask.DefinitionRegister, ask.DefinitionRegisterReply]
    image_create: Answer[P, ask.ImageCreate, ask.ImageReply]
    image_build: Answer[P, ask.ImageBuild, ask.ImageReply]
    image_run: Answer[P, ask.ImageRun, ask.ImageRunReply]
    image_stop: Answer[P, ask.ImageStop, ask.ImageIdReply]
    image_update: Answer[P, ask.ImageUpdate, ask.ImageReply]
    image_upgrade: Answer[P, ask.ImageUpgrade, ask.ImageUpgradeReply]
    image_list: Answer[P, ask.ImageList, ask.ImageListReply]
    image_get: Answer[P, ask.ImageGet, ask.ImageReply]
    image_delete: Answer[P, ask.ImageDelete, ask.ImageIdReply]
    image_messages: Answer[P, ask.ImageMessages, ask.ImageMessagesReply]
    session_create: Answer[P, ask.SessionCreate, ask.SessionReply]
    session_get: Answer[P, ask.SessionGet, ask.SessionReply]
    session_list: Answer[P, ask.SessionList, ask.SessionListReply]
    session_set_title: Answer[P, ask.SessionSetTitle, ask.SessionReply]
    session_release: Answer[P, ask.SessionRelease, ask.SessionReply]
    session_resume: Answer[P, ask.SessionResume, ask.ImageRunReply]
    session_messages: Answer[P, ask.SessionMessages, ask.SessionMessagesReply]
    session_browse: Answer[P, ask.SessionBrowse, ask.SessionBrowseReply]
    session_history: Answer[P, ask.SessionHistory, ask.SessionHistoryReply]
    session_search: Answer[P, ask.SessionSearch, ask.SessionSearchReply]
    session_mark_read: Answer[P, ask.SessionMarkRead, ask.SessionMarkReadReply]
    session_pin: Answer[P, ask.SessionPin, ask.SessionReply]
    session_archive: Answer[P, ask.SessionArchive, ask.SessionReply]
    session_delete: Answer[P, ask.SessionDelete, ask.SessionDeleteReply]
    session_restore: Answer[P, ask.SessionRestore, ask.SessionReply]
    session_fork: Answer[P, ask.SessionFork, ask.SessionReply]
    session_rewind: Answer[P, ask.SessionRewind, ask.SessionRewindReply]
    session_rewinds: Answer[P, ask.SessionRewinds, ask.SessionRewindsReply]
    session_compact: Answer[P, ask.SessionCompact, ask.SessionCompactReply]
    session_summaries: Answer[P, ask.SessionSummaries, ask.SessionSummariesReply]
    session_draft: Answer[P, ask.SessionDraft, ask.SessionDraftReply]
    session_drafts: Answer[P, ask.SessionDrafts, ask.SessionDraftsReply]
    session_draft_list: Answer[P, ask.SessionDraftList, ask.SessionDraftListReply]
    agent_get: Answer[P, ask.AgentGet, ask.AgentGetReply]
    agent_list: Answer[P, ask.AgentList, ask.AgentListReply]
    agent_destroy: Answer[P, ask.AgentDestroy, ask.AgentDestroyReply]
    agent_destroy_all: Answer[P, ask.AgentDestroyAll, ask.ContainerIdReply]
    agent_interrupt: Answer[P, ask.AgentInterrupt, ask.AgentInterruptReply]
    message_send: Answer[P, ask.MessageSend, ask.MessageSendReply]
    attachment_list: Answer[P, ask.AttachmentList, ask.AttachmentListReply]
    attachment_get: Answer[P, ask.AttachmentGet, ask.AttachmentGetReply]
    message_edit: Answer[P, ask.MessageEdit, ask.MessageSendReply]
    message_regenerate: Answer[P, ask.MessageRegenerate, ask.MessageSendReply]
    resource_register: Answer[P, ask.ResourceRegister, ask.ResourceRegisterReply]
    resource_publish: Answer[P, ask.ResourcePublish, ask.ResourceRegisterReply]
    resource_list: Answer[P, ask.ResourceList, ask.ResourceListReply]
    resource_resolve: Answer[P, ask.ResourceResolve, ask.ResourceResolveReply]


_KINDS = {kind.name: kind for kind in ask.Command.__subclasses__()}

COMMANDS: dict[str, type[ask.Command[ask.Reply]]] = {field.name: _KINDS[field.name] for field in fields(CommandTable)}
"""Every command's type by its name."""

ADDITIVE = frozenset({"container_delete", "image_build", "image_upgrade", "message_edit", "message_regenerate"}) | {
    name for name in COMMANDS if name.startswith(("attachment_", "definition_", "session_", "resource_"))
}
"""Commands that AgentX 1.x does not have. Its clients never send them, so nobody relies on what they overlook."""
