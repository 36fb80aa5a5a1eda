"""AgentVM — one running server: its parts, and the peers that are attached to it. `agentvm.app` opens it."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import anyio

from agentvm.blueprint.definition import Definitions
from agentvm.cluster.bus import Hearing
from agentvm.cluster.mailbox import Mailbox
from agentvm.cluster.membership import Membership
from agentvm.config import ServerConfig
from agentvm.config.centre import ConfigCentre
from agentvm.errors import AgentVMError
from agentvm.knowledge.library import KnowledgeLibrary
from agentvm.log import get_logger
from agentvm.model.channel import ChannelPort
from agentvm.model.ids import (
    DEFAULT_TENANT,
    Clock,
    ContainerId,
    NewId,
    SessionId,
    TenantId,
    UserId,
)
from agentvm.model.node import NodeReport, TurnScope
from agentvm.model.principal import EVERYTHING, Principal
from agentvm.model.secret import Secret
from agentvm.model.session import Session
from agentvm.observability.log_book import LogBook
from agentvm.observability.monitor import Monitor
from agentvm.protocol.dialect_v1 import encode_event
from agentvm.resources.centre import ResourceCentre
from agentvm.runtime.channel import Channel, Closing
from agentvm.runtime.housekeeping import stop_turns
from agentvm.runtime.invocation import Approve, Invoker
from agentvm.runtime.outbox_reader import OutboxReader
from agentvm.runtime.policy import layers_of
from agentvm.runtime.runtime import Runtime
from agentvm.schedules.clock import ScheduleClock
from agentvm.schedules.starter import TurnStarter
from agentvm.schedules.triggers import Triggers
from agentvm.sessions.compaction import Compactor
from agentvm.sessions.consents import Consents
from agentvm.sessions.export import export_budget
from agentvm.sessions.import_queue import ImportQueue
from agentvm.sessions.relays import Relays
from agentvm.sessions.retention import Retainer
from agentvm.sessions.upkeep import purge
from agentvm.sessions.workspace import Workspace
from agentvm.sharing.byte_budget import ByteBudget
from agentvm.sharing.cache import Cache
from agentvm.sharing.pending_changes import PendingChanges
from agentvm.storage.sql.accounts import Accounts
from agentvm.storage.sql.store import Store, TenantStore
from agentvm.tenants.book import release
from agentvm.tenants.scoped_store import ScopedStore
from agentvm.tenants.tenancy import Tenancy
from agentvm.tiers.on_demand import TiersOnDemand
from agentvm.tools.base import Caller
from agentvm.tools.metered_jobs import MeteredJobs
from agentvm.tools.sets import ToolSets
from agentvm.webhooks.sender import WebhookSender

logger = get_logger(__name__)

LISTEN_PERMISSION = "sessions:read"
"""The permission that a subscription needs."""

REVOKED = Closing(4401, "credentials revoked")
SUSPENDED = Closing(4403, "suspended")
EXPIRED = Closing(4408, "credentials expired")

EXPIRY_CHECK_SECONDS = 2.0
"""Time between two checks for credentials that have expired."""
COLLECT_SECONDS = 3_600.0
"""Time between two runs of the collection of unreferenced content."""
COLLECT_PAUSE_SECONDS = 0.02
"""Pause between two steps of a collection, so that other work is stored in between."""
GRACE_MS = 3_600_000
"""Unreferenced content is kept this long: a request may be about to refer to it."""
ATTACHMENT_GRACE_MS = 24 * 3_600_000
"""An uploaded file is kept this long without a message that refers to it."""

RECENT_ENTRIES_MS = 60_000
"""A refusal, or the reading of the same content, is entered once in this time for each actor, or it could fill the disk."""
RECENT_ENTRIES_MAX = 10_000

OPEN_ACCESS = Principal(tenant_id=DEFAULT_TENANT, permissions=EVERYTHING)
"""Without authentication there is one tenant, and containers differ by name."""


def system_clock() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Peer:
    """One connection: the principal, and the channel for replies and events. `store` is limited to the containers of its
    principal."""

    vm: "AgentVM"
    channel: Channel
    store: TenantStore

    @property
    def principal(self) -> Principal:
        return self.channel.principal

    @property
    def accounts(self) -> Accounts:
        return self.vm.tenancy.store.accounts(self.tenant_id)

    @property
    def tenant_id(self) -> TenantId:
        return self.channel.principal.tenant_id

    @property
    def workspace(self) -> Workspace:
        return self.vm.workspace(self.principal, store=self.store)

    def join(self, container_id: ContainerId, *, follow: bool = False) -> None:
        """Subscribes to the container; with `follow` also to all of its sessions, if the principal has the permission."""
        self.vm.runtime.broadcaster.join(self.channel, container_id, follow=follow and self.principal.may(LISTEN_PERMISSION))

    def joined(self) -> frozenset[ContainerId]:
        return self.vm.runtime.broadcaster.joined(self.channel)

    def subscribe(self, session: Session) -> tuple[SessionId, ...]:
        """Subscribes before the answer leaves, so that clients which never subscribe hear their own turns."""
        return self.listen(session.container_id, session.session_id)

    def listen(
        self, container_id: ContainerId, session_id: SessionId, after: int | None = None, deltas: bool | None = None
    ) -> tuple[SessionId, ...]:
        """Subscribes to the session; returns the subscribed sessions, none without the permission.

        Many commands subscribe, and few of them need the permission to read messages. So it is looked at here, where none can
        forget it: who may only send gets the replies to its commands.
        """
        self.join(container_id)
        if not self.principal.may(LISTEN_PERMISSION):
            return ()
        self.vm.runtime.broadcaster.subscribe(self.channel, container_id, session_id, after, deltas)
        return (session_id,)

    def outbox(self, channel: Channel | None = None) -> OutboxReader:
        """Returns the reader of the peer's channel, or of a mirror of it."""
        return OutboxReader(channel or self.channel, self.vm.runtime.replay, self.vm.clock)


@dataclass(kw_only=True, eq=False)
class AgentVM:
    """A running server: its parts, and the peers that are attached to it."""

    store: Store
    runtime: Runtime
    tenancy: Tenancy
    definitions: Definitions
    resources: ResourceCentre
    settings: ConfigCentre
    monitor: Monitor
    logs: LogBook
    compactor: Compactor
    retainer: Retainer
    jobs: MeteredJobs
    """Code in sandboxes, within quotas."""
    webhooks: WebhookSender
    relays: Relays
    """Model calls that clients word themselves."""
    knowledge: KnowledgeLibrary
    clock: Clock
    new_id: NewId
    tool_sets: ToolSets | None = None
    """Reads the tools of sets when they are published."""
    first_key: Secret | None = None
    """The operator's key, if this start has created it: to be shown once."""
    membership: Membership | None = None
    """The nodes of the cluster, and this one's place among them; None for a server alone."""
    leaving: anyio.Event = field(default_factory=anyio.Event)
    """Set when the operator has asked this node to stop: the program that has opened it ends it."""
    grace_seconds: float | None = None
    """Time that its turns get then; None for `system.shutdown_seconds`."""
    mailbox: Mailbox | None = None
    """Asks other nodes of the cluster."""
    hearing: Hearing | None = None
    """The nodes that are heard on the bus; None without NATS."""
    channels: ChannelPort | None = None
    """The host of chat channels; None for a runtime within another program, which runs none."""
    budget: ByteBudget = field(default_factory=ByteBudget)
    """The bytes that are on their way to and from all peers."""
    imports: ImportQueue = field(default_factory=ImportQueue)
    recent_entries: Cache[tuple[TenantId, str, str], bool] = field(
        default_factory=lambda: Cache(RECENT_ENTRIES_MAX, age_ms=RECENT_ENTRIES_MS)
    )
    """Recent entries of refusals and of reading in the audit log, by tenant, actor and action."""
    answering: PendingChanges = field(default_factory=PendingChanges)
    """The waits whose answers are being stored."""
    exporting: ByteBudget = field(default_factory=export_budget)
    schedules: ScheduleClock = field(init=False)
    triggers: Triggers = field(init=False)
    _connected: Counter[tuple[TenantId, UserId | None]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.schedules = ScheduleClock(self.store, self.clock)
        self.triggers = Triggers(self.store, self.tenancy.vault, self.clock)
        if (parts := self.tenancy.quotas.parts) is not None:
            roster = self.runtime.roster
            parts.gauges["connections"] = self.count_connected
            parts.gauges["running_agents"] = lambda tenant_id, _user_id: roster.count_running(tenant_id)
            parts.gauges["queued_messages"] = lambda tenant_id, _user_id: roster.count_waiting(tenant_id)

    @property
    def config(self) -> ServerConfig:
        """The effective configuration: most settings can change while the server runs."""
        return self.settings.config

    @property
    def tiers(self) -> TiersOnDemand:
        return self.jobs.tiers

    @property
    def consents(self) -> Consents | None:
        """The consents of users to MCP servers; None for a server that calls none."""
        sets = self.tool_sets
        return None if sets is None else Consents(store=self.store, runtime=self.runtime, servers=sets.mcp)

    @property
    def hindrance(self) -> str | None:
        """The reason why no new work is accepted, if there is one."""
        hindrance = self.runtime.hindrance or self.monitor.hindrance
        return hindrance if self.membership is None else hindrance or self.membership.hindrance

    def report(self) -> NodeReport:
        """The report of this server for lists of nodes."""
        return NodeReport(
            sockets=self.runtime.broadcaster.count_connected(),
            loop_lag_ms=round(self.monitor.sampler.lag * 1000),
            skew_ms=0 if self.membership is None else self.membership.skew_ms,
            hindrance=self.hindrance,
            disturbed=0 if self.hearing is None else self.hearing.bus.disturbed,
            is_on_bus=self.hearing is not None and self.hearing.bus.is_up,
        )

    async def authenticate(self, credential: str | None) -> Principal | None:
        """Returns the principal of a credential, None without one. Raises `Unauthenticated` for an invalid credential."""
        if not self.config.authenticates:
            return OPEN_ACCESS
        return None if credential is None else await self.tenancy.access.authenticate(credential)

    async def admit(self, principal: Principal) -> None:
        """To be asked before a peer is attached: `QuotaExceeded` when there are too many of them."""
        reserved = self.tenancy.quotas.reserve(principal.tenant_id, principal.user_id, "connections", self.count_connected)
        release(await reserved)

    def invoker(self, tenant_id: TenantId, user_id: UserId | None, approve: Approve) -> Invoker:
        """Calls tools for a tenant outside conversations, by the rules of the operator and the tenant."""
        settings = self.settings.settings_of(tenant_id)
        return Invoker(
            tools=self.runtime.tools,
            caller=Caller(tenant_id, user_id or ""),
            settings=settings,
            layers=layers_of(self.settings.settings_of(None).tools.policy, settings.tools.policy, ()),
            approve=approve,
            meter=self.runtime.tool_meter,
        )

    def count_connected(self, tenant_id: TenantId, user_id: UserId | None = None) -> int:
        """The connections of a tenant, or of one of its users."""
        if user_id is not None:
            return self._connected[tenant_id, user_id]
        return sum(number for (tenant, _), number in self._connected.items() if tenant == tenant_id)

    def attach(self, principal: Principal = OPEN_ACCESS, channel: Channel | None = None) -> Peer:
        """A peer with a channel of its own, or with the given one, which is the principal's; the caller detaches it."""
        channel = channel or Channel(principal, encode_event, self.budget)
        channel.opened_at = self.clock()
        self.runtime.broadcaster.attach(channel)
        self._connected[principal.tenant_id, principal.user_id] += 1
        store = ScopedStore(self.store.tenant(principal.tenant_id), principal)
        return Peer(vm=self, channel=channel, store=store)

    def workspace(
        self, principal: Principal, tenant_id: TenantId | None = None, *, store: TenantStore | None = None
    ) -> Workspace:
        """Returns the principal's view of its own tenant, or of the one that an operator names; `store` is that view's."""
        tenant_id = tenant_id or principal.tenant_id
        return Workspace(
            store=store or ScopedStore(self.store.tenant(tenant_id), principal),
            principal=principal,
            tenant_id=tenant_id,
            runtime=self.runtime,
            definitions=self.definitions,
            resources=self.resources,
            tenancy=self.tenancy,
            clock=self.clock,
            new_id=self.new_id,
            compactor=self.compactor,
            tool_sets=self.tool_sets,
        )

    @property
    def starter(self) -> TurnStarter:
        """Begins the turns of schedules and triggers."""
        return TurnStarter(access=self.tenancy.access, workspace_of=self.workspace)

    async def run_schedules(self) -> None:
        """Begins the runs of schedules when they are due, until cancelled."""
        await self.schedules.run(self.starter, self.runtime.broadcast, is_shared=self.membership is not None)

    @contextmanager
    def connected(self, principal: Principal) -> Iterator[None]:
        """Counts a connection that has no channel, for as long as the block lasts."""
        key = (principal.tenant_id, principal.user_id)
        self._connected[key] += 1
        try:
            yield
        finally:
            self._disconnect(key)

    def _disconnect(self, key: tuple[TenantId, UserId | None]) -> None:
        self._connected[key] -= 1
        if self._connected[key] <= 0:
            del self._connected[key]

    def detach(self, peer: Peer) -> None:
        self.runtime.broadcaster.detach(peer.channel)
        peer.channel.release()
        self._disconnect((peer.tenant_id, peer.principal.user_id))

    def dismiss(self, named: Callable[[Principal], bool], why: str, before: int | None = None) -> None:
        """Closes the channels of those whose rights have ended; with `before` those that were opened before that time."""
        for channel in self.runtime.broadcaster.channels:
            if named(channel.principal) and (before is None or channel.opened_at <= before):
                channel.close(SUSPENDED if why == "suspended" else REVOKED)
        if self.channels is not None:
            # A chat channel has a key, too.
            self.channels.changed()

    async def stop_turns(self, tenant_id: TenantId, containers: frozenset[ContainerId] | None) -> None:
        """Ends the turns of principals without rights: in these containers, or all of the tenant."""
        await stop_turns(self.runtime, TurnScope(tenant_id=tenant_id, container_ids=containers))

    async def stop_turns_everywhere(self, tenant_id: TenantId, containers: frozenset[ContainerId] | None) -> None:
        """The same on all nodes."""
        await self.runtime.stop_elsewhere(TurnScope(tenant_id=tenant_id, container_ids=containers))
        await self.stop_turns(tenant_id, containers)

    async def collect(self) -> None:
        """Deletes expired and unreferenced content, until cancelled."""
        while True:
            try:
                await self.retainer.run()
                await purge(self.store, self.clock, self.runtime.settings_of(None).limits.undo_seconds, self._forget_purged)
                # Last: deleted content may have held the last references.
                dropped = 1
                while dropped:
                    dropped = await self.store.collect(self.clock(), grace=GRACE_MS, attachment_grace=ATTACHMENT_GRACE_MS)
                    await anyio.sleep(COLLECT_PAUSE_SECONDS)
            except AgentVMError as error:
                logger.error("not_collected", code=error.code, error=str(error))
            await anyio.sleep(COLLECT_SECONDS)

    def _forget_purged(self, tenant_id: TenantId, session_id: SessionId) -> None:
        """Drops a purged session from memory; one whose agent is being stopped after its subscribers have received the end."""
        if self.runtime.broadcaster.is_heard(tenant_id, session_id) and any(
            (agent.tenant_id, agent.session_id) == (tenant_id, session_id) for agent in self.runtime.roster
        ):
            return
        self.runtime.forget_session(tenant_id, session_id)

    async def close_expired(self) -> None:
        """Closes connections with expired credentials, until cancelled."""
        while True:
            await anyio.sleep(EXPIRY_CHECK_SECONDS)
            now = self.clock()
            for channel in self.runtime.broadcaster.channels:
                expires_at = channel.principal.expires_at
                if expires_at is not None and expires_at <= now:
                    channel.close(EXPIRED)
            try:
                await self.tenancy.access.flush_used()
            except AgentVMError as error:
                logger.error("uses_of_keys_not_stored", code=error.code, error=str(error))
