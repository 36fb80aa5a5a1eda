"""Context — the principal of an operation, the tenant that it is about, and the running server.

The same for every face. Over a WebSocket there is a peer, which is subscribed to the sessions it uses; over HTTP there are the
details of the request, for the few operations that carry bytes or conditions.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, Self

from agentvm.config.scope import SettingsScope
from agentvm.errors import AgentNotFound
from agentvm.model.ids import AgentId, ContainerId, SessionId, TenantId
from agentvm.model.principal import Principal
from agentvm.model.session import Session
from agentvm.runtime.agent import Agent
from agentvm.runtime.roster import Present
from agentvm.sessions.attachments import AttachmentLibrary
from agentvm.sessions.branches import Branches
from agentvm.sessions.containers import Containers
from agentvm.sessions.drafts import DraftLibrary
from agentvm.sessions.image_files import ImageFiles
from agentvm.sessions.images import ImageLibrary
from agentvm.sessions.library import SessionLibrary
from agentvm.sessions.resources import ResourceLibrary
from agentvm.sessions.sender import MessageSender
from agentvm.sessions.session_files import SessionFileLibrary
from agentvm.sessions.transfer import SessionExport, SessionImport
from agentvm.sessions.workspace import Workspace
from agentvm.sharing.reservation import RequestReservation
from agentvm.storage.sql.accounts import Accounts
from agentvm.storage.sql.store import TenantStore
from agentvm.tenants.tenancy import Tenancy
from agentvm.vm import AgentVM, Peer


@dataclass(slots=True, kw_only=True)
class HttpDetails:
    """Parts of an HTTP request that no field of a request holds."""

    body: bytes = b""
    """As it came, for an operation with `body="bytes"`."""
    file: BinaryIO | None = None
    """The body, for an operation with `body="file"`; closed when the operation has answered."""
    accept: str = ""
    content_type: str = ""
    if_match: str | None = None
    if_none_match: str | None = None
    user_agent: str = ""
    last_event_id: str | None = None
    """The last event that a client of a stream has received."""
    origin: str = ""
    """Scheme and host by which the client reaches this server."""
    flow_cookie: str = ""
    """The cookie of a browser that has begun to sign in at the identity provider."""
    is_secure: bool = False
    """Whether the client uses https, as far as the server or a trusted proxy knows."""
    names_tenant: bool = False
    """Whether the tenant was named with `?tenant=`."""
    signed: Mapping[str, str] = field(default_factory=dict)
    """The headers that prove who sent the body, as webhooks have them."""
    reason: str | None = None
    """The operator's reason to read another tenant's content, from `?reason=`."""


@dataclass(slots=True, kw_only=True, eq=False)
class Context:
    """One operation being carried out."""

    vm: AgentVM
    workspace: Workspace
    """The principal, the tenant that it is about, and the store limited to the principal's containers."""
    peer: Peer | None = None
    http: HttpDetails = field(default_factory=HttpDetails)
    request_id: str = ""
    address: str | None = None
    target: str = ""
    """The object of the audit log's entry; an operation that creates an item sets it."""
    is_forwarded: bool = False
    """Set for an operation that another node was asked for first."""
    is_dry_run: bool = False
    """Set by an operation that wrote nothing: then there is no entry of the audit log."""
    after: list[Callable[[], object]] = field(default_factory=list)
    """Run once the reply is on its way: a turn starts only after its sender was answered."""
    _room: RequestReservation | None = None

    @property
    def principal(self) -> Principal:
        return self.workspace.principal

    @property
    def tenant_id(self) -> TenantId:
        return self.workspace.tenant_id

    @property
    def store(self) -> TenantStore:
        return self.workspace.store

    @property
    def accounts(self) -> Accounts:
        return self.workspace.accounts

    @property
    def tenancy(self) -> Tenancy:
        return self.workspace.tenancy

    @property
    def room(self) -> RequestReservation:
        """Bytes that the reply holds of the byte budget until it is on its way."""
        if self._room is None:
            self._room = RequestReservation(self.vm.budget, self.tenant_id)
        return self._room

    @property
    def is_bulky(self) -> bool:
        return self._room is not None and self._room.held > 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        if self._room is not None:
            self._room.__exit__()

    def finish(self) -> None:
        """Runs everything that waits for the reply to be on its way."""
        for then in self.after:
            then()

    @property
    def sessions(self) -> SessionLibrary:
        return SessionLibrary(self.workspace)

    def sessions_of(self, principal: Principal) -> SessionLibrary:
        """The sessions that a principal may use who is narrower than the caller."""
        return SessionLibrary(self.vm.workspace(principal))

    @property
    def sender(self) -> MessageSender:
        return MessageSender(self.workspace)

    @property
    def branches(self) -> Branches:
        return Branches(self.workspace)

    @property
    def containers(self) -> Containers:
        return Containers(self.workspace)

    @property
    def drafts(self) -> DraftLibrary:
        return DraftLibrary(self.workspace)

    @property
    def images(self) -> ImageLibrary:
        return ImageLibrary(self.workspace)

    @property
    def image_files(self) -> ImageFiles:
        return ImageFiles(self.workspace)

    @property
    def attachments(self) -> AttachmentLibrary:
        return AttachmentLibrary(self.workspace)

    @property
    def session_files(self) -> SessionFileLibrary:
        return SessionFileLibrary(self.workspace)

    @property
    def resources(self) -> ResourceLibrary:
        return ResourceLibrary(self.workspace)

    @property
    def settings(self) -> SettingsScope:
        """The settings of the server for an operator who names no tenant, else those of the tenant."""
        of_server = self.principal.may("system:admin") and not self.http.names_tenant
        return SettingsScope(self.vm.settings, None if of_server else self.tenant_id)

    def session_export(self) -> SessionExport:
        return SessionExport(self.workspace, self.vm.exporting)

    def session_import(self, container_id: ContainerId | None) -> SessionImport:
        return SessionImport(self.workspace, self.vm.imports, container_id)

    def find_agent(self, agent_id: AgentId) -> Present | None:
        """Returns an agent within reach, awake or asleep."""
        present = self.vm.runtime.roster.find(self.tenant_id, agent_id)
        return present if present is not None and self.principal.reaches(present.container_id) else None

    async def agent(self, agent_id: AgentId) -> Agent:
        """Returns an agent within reach, awake."""
        present = self.find_agent(agent_id)
        agent = None if present is None else await self.vm.runtime.wake_agent(self.tenant_id, agent_id)
        if agent is None:
            raise AgentNotFound(agent_id)
        return agent

    def join(self, container_id: ContainerId, *, follow: bool = False) -> None:
        """Subscribes the peer, if there is one, to the container; with `follow` also to its new sessions."""
        if self.peer is not None:
            self.peer.join(container_id, follow=follow)

    def joined(self) -> frozenset[ContainerId]:
        """The containers that the peer is subscribed to."""
        return frozenset() if self.peer is None else self.peer.joined()

    def subscribe(self, session: Session) -> tuple[SessionId, ...]:
        """Subscribes the peer before the reply is sent, so that clients which never subscribe receive their own turns."""
        return self.listen(session.container_id, session.session_id)

    def listen(
        self, container_id: ContainerId, session_id: SessionId, after: int | None = None, deltas: bool | None = None
    ) -> tuple[SessionId, ...]:
        """Subscribes the peer, if there is one; returns its subscribed sessions."""
        return () if self.peer is None else self.peer.listen(container_id, session_id, after, deltas)


def context_of(peer: Peer, request_id: str = "") -> Context:
    """Returns the context of a command that a peer asks for."""
    return Context(vm=peer.vm, workspace=peer.workspace, peer=peer, request_id=request_id)
