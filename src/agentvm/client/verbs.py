"""Verbs — the command table as methods, the same over a socket and within a process.

Everything here speaks through a `RuntimeLink`. A remote link sends frames, a local one calls the runtime; callers cannot tell
which.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Literal, Protocol, TypeVar

from agentvm.client.file_verbs import AttachmentVerbs, FileVerbs
from agentvm.client.handles import SessionHandle, events_of_turn, there
from agentvm.client.image_verbs import ImageManager
from agentvm.model.definition import Definition
from agentvm.model.ids import AgentId, ContainerId, ImageId, SessionId
from agentvm.model.message import UserContent
from agentvm.model.resource import Visibility
from agentvm.model.semver import Bump
from agentvm.model.session import Draft
from agentvm.model.turn import OutputFormat
from agentvm.operations.agent import AgentDestroy, AgentDestroyAll, AgentGet, AgentList
from agentvm.operations.container import ContainerCreate, ContainerDelete, ContainerDeleteReply, ContainerGet, ContainerList
from agentvm.operations.definition import DefinitionGet, DefinitionList, DefinitionRegister
from agentvm.operations.draft import DraftListed, SessionDraft, SessionDraftList, SessionDraftReply, SessionDrafts
from agentvm.operations.resource import ResourceList, ResourcePublish, ResourceRegister
from agentvm.operations.resource_resolve import ResourceResolve, ResourceResolveReply
from agentvm.operations.resource_views import ResourceRegisterReply
from agentvm.operations.run import RunStart
from agentvm.operations.session import (
    SessionArchive,
    SessionCreate,
    SessionDelete,
    SessionGet,
    SessionMarkRead,
    SessionPin,
    SessionRecordReply,
    SessionReply,
    SessionRestore,
    SessionSetTitle,
)
from agentvm.operations.session_lists import (
    SessionBrowse,
    SessionBrowseReply,
    SessionHistory,
    SessionHistoryReply,
    SessionList,
    SessionSearch,
    SessionSearchReply,
)
from agentvm.protocol.link import RuntimeLink, Unsubscribe, WireEvent
from agentvm.protocol.records import AgentRecord, DefinitionRecord, ResourceRecord
from agentvm.protocol.requests import Reply, Request

R = TypeVar("R", bound=Reply)


class Verbs:
    """The commands of one noun as methods."""

    def __init__(self, link: RuntimeLink) -> None:
        self._link = link


class DefinitionManager(Verbs):
    """Definitions, the templates of images."""

    async def register(self, definition: Definition) -> Definition:
        return (await self._link.ask(DefinitionRegister(definition=definition))).definition

    async def list(self) -> tuple[Definition, ...]:
        """Lists registered definitions, then the agents of the resource centre, which are `DefinitionRecord`s."""
        return tuple(map(_registered, (await self._link.ask(DefinitionList())).definitions))

    async def get(self, name: str) -> Definition | None:
        """Returns a definition by its name, or by the URI of an agent."""
        definition = (await self._link.ask(DefinitionGet(definition_name=name))).definition
        return None if definition is None else _registered(definition)


class ResourceVerbs(Verbs):
    """Prompts, tools and agents, by URI. The rest of the resource centre is at `/v1/resources`."""

    async def register(
        self,
        kind: str,
        name: str,
        content: dict[str, object],
        *,
        version: str | None = None,
        description: str | None = None,
        tags: tuple[str, ...] | None = None,
        visibility: Visibility | None = None,
        tag: str | None = None,
    ) -> ResourceRegisterReply:
        """`kind` is a type of resources: `prompts`, `tools` …"""
        command = ResourceRegister(
            type=kind,
            name=name,
            content=content,
            version=version,
            description=description,
            tags=tags,
            visibility=visibility,
            tag=tag,
        )
        return await self._link.ask(command)

    async def publish(
        self,
        uri: str,
        content: dict[str, object],
        version: str | None = None,
        bump: Bump = "patch",
        tag: str | None = None,
    ) -> ResourceRegisterReply:
        """Publishes a version of your own resource: `version`, or the next one."""
        number = None if version is not None else bump
        return await self._link.ask(ResourcePublish(uri=uri, content=content, version=version, bump=number, tag=tag))

    async def list(self, text: str | None = None, *, kind: str | None = None, limit: int = 20) -> tuple[ResourceRecord, ...]:
        """Lists the first matches."""
        return (await self._link.ask(ResourceList(q=text, type=kind, limit=limit))).records

    async def resolve(self, uri: str, args: dict[str, object] | None = None) -> ResourceResolveReply:
        return await self._link.ask(ResourceResolve(uri=uri, args=args))


class ContainerManager(Verbs):
    """Containers, the isolation boundaries."""

    async def create(self, container_id: str) -> ContainerId:
        await self._link.ask(ContainerCreate(container_id=container_id))
        return ContainerId(container_id)

    async def exists(self, container_id: str) -> bool:
        return (await self._link.ask(ContainerGet(container_id=container_id))).exists

    async def list(self) -> tuple[ContainerId, ...]:
        """Lists all containers, oldest first."""
        container_ids: list[ContainerId] = []
        cursor: str | None = None
        while True:
            page = await self._link.ask(ContainerList(cursor=cursor))
            container_ids += page.container_ids
            if (cursor := page.next_cursor) is None:
                return tuple(container_ids)

    async def delete(self, container_id: str, *, dry_run: bool = False) -> ContainerDeleteReply:
        """Deletes a container and its data permanently. With `dry_run` only counts the data, as `owned`."""
        return await self._link.ask(ContainerDelete(container_id=container_id, dry_run=dry_run))


class SessionManager(Verbs):
    """Sessions, the conversations with an image."""

    async def create(self, image_id: str | None = None, title: str | None = None) -> "SessionHandle":
        """Creates a session of an image; without one, of a new image of the default definition."""
        if image_id is None:
            image_id = (await ImageManager(self._link).create()).image_id
        return self._handle(await self._link.ask(SessionCreate(image_id=ImageId(image_id), title=title)))

    async def get(self, session_id: str) -> "SessionHandle | None":
        session = (await self._link.ask(SessionGet(session_id=SessionId(session_id)))).session
        return None if session is None else SessionHandle(self._link, session)

    async def list(self, image_id: str) -> "tuple[SessionHandle, ...]":
        reply = await self._link.ask(SessionList(image_id=ImageId(image_id)))
        return tuple(SessionHandle(self._link, session) for session in reply.sessions)

    async def set_title(self, session_id: str, title: str | None) -> "SessionHandle":
        return self._handle(await self._link.ask(SessionSetTitle(session_id=SessionId(session_id), title=title)))

    async def browse(
        self, container_id: str | None = None, *, title: str | None = None, cursor: str | None = None, limit: int = 50
    ) -> SessionBrowseReply:
        """Lists the sessions of a container, or of all within reach: pinned ones first, then the latest."""
        return await self._link.ask(SessionBrowse(container_id=container_id, title=title, cursor=cursor, limit=limit))

    async def search(self, text: str, *, cursor: str | None = None, limit: int = 20) -> SessionSearchReply:
        """Searches messages within reach, the best match first."""
        return await self._link.ask(SessionSearch(q=text, cursor=cursor, limit=limit))

    async def history(self, session_id: str, *, newest: bool = False, cursor: str | None = None) -> SessionHistoryReply:
        """Returns a page of messages, from either end."""
        order: Literal["newest", "oldest"] = "newest" if newest else "oldest"
        return await self._link.ask(SessionHistory(session_id=SessionId(session_id), cursor=cursor, order=order))

    async def pin(self, session_id: str, *, pinned: bool = True) -> "SessionHandle":
        return self._handle(await self._link.ask(SessionPin(session_id=SessionId(session_id), pinned=pinned)))

    async def archive(self, session_id: str, *, archived: bool = True) -> "SessionHandle":
        return self._handle(await self._link.ask(SessionArchive(session_id=SessionId(session_id), archived=archived)))

    async def delete(self, session_id: str) -> int:
        """Deletes a session; returns until when it can be restored, in ms."""
        return (await self._link.ask(SessionDelete(session_id=SessionId(session_id)))).restorable_until

    async def restore(self, session_id: str) -> "SessionHandle":
        return self._handle(await self._link.ask(SessionRestore(session_id=SessionId(session_id))))

    async def mark_read(self, session_id: str, cursor: str | None = None) -> int:
        """Marks a session as read, up to a cursor or to its end; returns the number of unread answers."""
        return (await self._link.ask(SessionMarkRead(session_id=SessionId(session_id), cursor=cursor))).unread

    def _handle(self, reply: SessionReply | SessionRecordReply) -> "SessionHandle":
        return SessionHandle(self._link, there(reply.session))


class Drafts(Verbs):
    """Unsent messages of the principal."""

    async def save(
        self, session_id: str, text: str, *, device: str | None = None, if_updated_at: int | None = None
    ) -> SessionDraftReply:
        """Saves a draft; an empty text removes it. `saved` is false if it was changed since `if_updated_at`."""
        return await self._link.ask(
            SessionDraft(session_id=SessionId(session_id), text=text, device=device, if_updated_at=if_updated_at)
        )

    async def of(self, session_id: str) -> tuple[Draft, ...]:
        """Lists the drafts of a session, newest first."""
        return (await self._link.ask(SessionDrafts(session_id=SessionId(session_id)))).drafts

    async def list(self, container_id: str | None = None, *, limit: int = 50) -> tuple[DraftListed, ...]:
        """Lists the drafts of all sessions, newest first."""
        return (await self._link.ask(SessionDraftList(container_id=container_id, limit=limit))).drafts


class AgentManager(Verbs):
    """Running agents."""

    async def exists(self, agent_id: str) -> bool:
        return (await self._link.ask(AgentGet(agent_id=AgentId(agent_id)))).exists

    async def list(self, container_id: str) -> tuple[AgentRecord, ...]:
        return (await self._link.ask(AgentList(container_id=container_id))).agents

    async def destroy(self, agent_id: str) -> bool:
        """Stops an agent; returns whether it was there."""
        return (await self._link.ask(AgentDestroy(agent_id=AgentId(agent_id)))).success

    async def destroy_all(self, container_id: str) -> None:
        await self._link.ask(AgentDestroyAll(container_id=container_id))


class RuntimeVerbs(Verbs):
    """All commands, by noun."""

    def __init__(self, link: RuntimeLink) -> None:
        super().__init__(link)
        self.definitions = DefinitionManager(link)
        self.resources = ResourceVerbs(link)
        self.images = ImageManager(link)
        self.containers = ContainerManager(link)
        self.attachments = AttachmentVerbs(link)
        self.sessions = SessionManager(link)
        self.files = FileVerbs(link)
        self.drafts = Drafts(link)
        self.agents = AgentManager(link)

    async def ask(self, request: Request[R]) -> R:
        """Sends any command as its type: `await agentx.ask(SessionPin(session_id=…))`."""
        return await self._link.ask(request)

    async def request(self, kind: str, data: dict[str, object] | None = None) -> WireEvent:
        return await self._link.request(kind, data or {})

    async def run(
        self,
        content: UserContent,
        *,
        agent: str = "default",
        container_id: str | None = None,
        output: OutputFormat | None = None,
        keep: bool = False,
    ) -> AsyncGenerator[WireEvent, None]:
        """Runs an agent once, without a session to continue with, and yields the events; the last one is `turn_response`."""
        command = RunStart(content=content, agent=agent, container=container_id, output=output, keep=keep)
        async with aclosing(events_of_turn(self._link, command)) as events:
            async for event in events:
                yield event


class RuntimeView(RuntimeVerbs):
    """The runtime of one peer: its commands, and the events that come over its channel."""

    def __init__(self, channel: RuntimeLink) -> None:
        super().__init__(channel)
        self.channel = channel
        self.on = channel.on
        """Calls a handler for every event, or for those of one type: `on(handler)`, `on("text_delta", handler)`."""


class ServerManager(Protocol):
    """Listens for peers; only a runtime that runs here has one."""

    async def listen(self, *, port: int, host: str = "127.0.0.1") -> int:
        """Returns the port, which the system chooses for 0."""

    async def close(self) -> None: ...

    def on_connection(self, handler: "Callable[[RuntimeView], None]") -> Unsubscribe:
        """Calls the handler with each new peer's own view of the runtime."""


class AgentX(RuntimeVerbs):
    """The entry point of an application. It receives no events itself: they are those of its `runtime`."""

    def __init__(self, channel: RuntimeLink, server: ServerManager | None) -> None:
        super().__init__(channel)
        self.runtime = RuntimeView(channel)
        self.server = server


def _registered(record: DefinitionRecord) -> Definition:
    """Returns a registered definition as the type it was registered with."""
    if record.uri is not None:
        return record
    return Definition(**{name: getattr(record, name) for name in Definition.__struct_fields__})
