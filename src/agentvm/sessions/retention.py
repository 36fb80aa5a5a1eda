"""Retention — deletes sessions and messages that are older than their tenant keeps them, in batches in the background.

Theory of operation. Each tenant has its own policy, and each run its own cutoff times. Content is deleted in small commits, so
turns are stored in between, and a crash leaves complete turns and complete sessions. The store decides in each commit whether
an item is still due; busy sessions are known here, and left alone. A preview asks the same questions without the commits.
"""

import functools
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import anyio

from agentvm.errors import AgentVMError
from agentvm.events.base import EventData, EventScope
from agentvm.events.lifecycle import SessionDeleted, SessionTitleUpdated, SessionUpdated
from agentvm.log import get_logger
from agentvm.model.ids import Clock, ContainerId, SessionId, TenantId
from agentvm.model.retention import Retention, RetentionCutoffs
from agentvm.model.session import Session
from agentvm.runtime.agent import Agent
from agentvm.runtime.runtime import Runtime
from agentvm.storage.retention import NOTHING, Expiring, OldTurn, SessionAddress, SessionAddressPage, Weight
from agentvm.storage.sql.sessions.retention import RetentionStore
from agentvm.storage.sql.store import Store

logger = get_logger(__name__)

PAGE_SESSIONS_MAX = 100
"""Sessions that are read together."""
COMMIT_MESSAGES_MAX = 500
"""Messages that one commit deletes, unless one turn has more."""
COMMIT_PAUSE_SECONDS = 0.01
"""Pause between two commits, so that turns are stored in between."""
PAGE_TENANTS_MAX = 100
UNSTORED_MS = 60_000
"""Time that the client of a session that is not to be stored has to read the end of its turn."""


class LoadedSessions:
    """The sessions in memory, known to the runtime and not to the store."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def busy(self, tenant_id: TenantId, container_id: ContainerId, session_id: SessionId) -> bool:
        """Whether a turn of the session runs or waits, or one is about to begin."""
        present = self._runtime.roster.get(tenant_id, container_id, session_id)
        if isinstance(present, Agent) and not present.resting:
            return True
        # A restart needs the events that the journal still carries.
        log = self._runtime.journal.find(tenant_id, session_id)
        return log is not None and bool(log.tail or log.open_turns)

    async def unload(self, tenant_id: TenantId, container_id: ContainerId, session_id: SessionId) -> None:
        """Stops the session's agent, if there is one."""
        present = self._runtime.roster.get(tenant_id, container_id, session_id)
        if present is not None:
            await self._runtime.stop_agent(present)

    def publish(self, tenant_id: TenantId, scope: EventScope, data: EventData) -> None:
        self._runtime.broadcast(tenant_id, scope, data)

    def forget(self, tenant_id: TenantId, session_id: SessionId) -> None:
        """Drops the messages and events in memory of a session that has lost some of them."""
        self._runtime.forget_delivered(tenant_id, session_id)


@dataclass(frozen=True, slots=True)
class Due:
    """The amount to delete: sessions, default sessions to empty, and messages, those of the sessions included."""

    sessions: int = 0
    emptied: int = 0
    messages: int = 0
    bytes: int = 0

    def __add__(self, other: "Due") -> "Due":
        return Due(
            self.sessions + other.sessions,
            self.emptied + other.emptied,
            self.messages + other.messages,
            self.bytes + other.bytes,
        )


def _of(weight: Weight, *, sessions: int = 0, emptied: int = 0) -> Due:
    return Due(sessions, emptied, weight.messages, weight.bytes)


class Retainer:
    """One per server. `policy_of` returns the policy of a tenant; `counted` receives the amount that a run has deleted."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        policy_of: Callable[[TenantId], Retention],
        loaded: LoadedSessions,
        counted: Callable[[Due], None] = lambda due: None,
    ) -> None:
        self._store, self._clock = store, clock
        self.policy_of = policy_of
        self._loaded = loaded
        self._counted = counted

    async def run(self) -> Due:
        """Runs once for all tenants. A failure for one tenant does not affect the others."""
        total, after = Due(), None
        while tenants := await self._store.directory.list_tenants(after=after, limit=PAGE_TENANTS_MAX):
            for tenant in tenants:
                try:
                    total += await self.run_for(tenant.tenant_id)
                except AgentVMError as error:
                    logger.error("retention_failed", tenant_id=tenant.tenant_id, code=error.code, error=str(error))
            after = tenants[-1].slug
        return total

    async def run_for(self, tenant_id: TenantId) -> Due:
        cut = self.policy_of(tenant_id).cut(self._clock())
        run = _Run(tenant_id, self._store.tenant(tenant_id).retention(), cut, self._clock, self._loaded)
        try:
            await run.all()
        finally:
            # Also after a failure, for the part that was deleted before.
            if run.done != Due():
                self._counted(run.done)
                done = run.done
                logger.info(
                    "retention_applied",
                    tenant_id=tenant_id,
                    sessions=done.sessions,
                    emptied=done.emptied,
                    messages=done.messages,
                    bytes=done.bytes,
                )
        return run.done

    async def preview(self, tenant_id: TenantId, policy: Retention | None = None) -> Due:
        """Returns the amount that the next run would delete as of now, by this policy instead of the current one."""
        cut = (policy or self.policy_of(tenant_id)).cut(self._clock())
        store, due, going = self._store.tenant(tenant_id).retention(), Due(), set[SessionId]()
        async with aclosing(_expiring(store, cut)) as expiring:
            async for some in expiring:
                for expiring_session in some:
                    if expiring_session.session.session_id in going:
                        continue
                    going.add(expiring_session.session.session_id)
                    due += _of(
                        expiring_session.weight, sessions=not expiring_session.is_default, emptied=expiring_session.is_default
                    )
        if cut.rewound is not None:
            due += _of(await store.rewound(cut))
        if cut.messages is not None:
            async with aclosing(
                _paged(functools.partial(store.with_old_turns, cut.messages, limit=PAGE_SESSIONS_MAX))
            ) as places:
                async for place in places:
                    if place.session_id not in going:
                        due += _of(sum((turn.weight for turn in await store.old_turns(place, cut.messages)), NOTHING))
        return due


class _Run:
    """One run for one tenant."""

    def __init__(
        self, tenant_id: TenantId, store: RetentionStore, cut: RetentionCutoffs, clock: Clock, loaded: LoadedSessions
    ) -> None:
        self._tenant_id, self._store, self._cut = tenant_id, store, cut
        self._clock, self._loaded = clock, loaded
        self.done = Due()

    async def all(self) -> None:
        has_more = True
        while has_more:
            has_more = await self._drop(await self._store.expire_unstored(self._clock() - UNSTORED_MS), {})
            await anyio.sleep(COMMIT_PAUSE_SECONDS)
        async with aclosing(_expiring(self._store, self._cut)) as expiring:
            async for some in expiring:
                idle = [candidate for candidate in some if not self._busy(candidate.session)]
                await self._expire([candidate for candidate in idle if not candidate.is_default])
                for candidate in idle:
                    if candidate.is_default:
                        await self._empty(candidate.session, candidate.weight)
        if self._cut.rewound is not None:
            await self._drop_rewound(self._cut.rewound)
        if self._cut.messages is not None:
            async with aclosing(
                _paged(functools.partial(self._store.with_old_turns, self._cut.messages, limit=PAGE_SESSIONS_MAX))
            ) as old:
                async for place in old:
                    await self._drop_turns(place, self._cut.messages)

    async def _expire(self, expiring: Sequence[Expiring]) -> None:
        if not expiring:
            return
        weights = {candidate.session.session_id: candidate.weight for candidate in expiring}
        await self._drop(await self._store.expire(tuple(weights), self._cut), weights)
        await anyio.sleep(COMMIT_PAUSE_SECONDS)

    async def _drop(self, marked: Sequence[Session], weights: Mapping[SessionId, Weight]) -> bool:
        """Ends sessions that were marked; returns whether there were any."""
        # A session that came into use while it was marked is kept.
        used = {session.session_id for session in marked if self._busy(session)}
        if used:
            await self._store.revive(tuple(used))
        for session in marked:
            if session.session_id in used:
                continue
            await self._loaded.unload(self._tenant_id, session.container_id, session.session_id)
            now = self._clock()
            self._publish(session, SessionDeleted.of(session, deleted_at=now, restorable_until=now))
            self.done += _of(weights.get(session.session_id, NOTHING), sessions=1)
        return len(used) < len(marked)

    async def _empty(self, session: Session, weight: Weight) -> None:
        before = self.done
        await self._drop_turns(SessionAddress(session.container_id, session.session_id), None)
        if self._busy(session):
            return
        self._loaded.forget(self._tenant_id, session.session_id)
        cleared = await self._store.clear(session.session_id, self._cut, self._clock())
        if cleared is None:
            return
        self._loaded.forget(self._tenant_id, session.session_id)
        # Rewound messages included.
        self.done = before + _of(weight, emptied=1)
        if session.title is not None:
            self._publish(cleared, SessionTitleUpdated.of(cleared, title=None))
        self._publish(cleared, SessionUpdated.of(cleared))

    async def _drop_rewound(self, before: int) -> None:
        async with aclosing(_paged(functools.partial(self._store.with_rewound, before, limit=PAGE_SESSIONS_MAX))) as places:
            async for place in places:
                dropped = Weight(COMMIT_MESSAGES_MAX)
                while dropped.messages >= COMMIT_MESSAGES_MAX and not self._at_work(place):
                    dropped = await self._store.drop_rewound(place, before, limit=COMMIT_MESSAGES_MAX)
                    self._note(place, dropped)
                    await anyio.sleep(COMMIT_PAUSE_SECONDS)

    async def _drop_turns(self, place: SessionAddress, before: int | None) -> None:
        for some in _batches(await self._store.old_turns(place, before)):
            if self._at_work(place):
                return
            # Before, too: a turn that begins while they are being deleted is not answered with what memory has of them.
            self._loaded.forget(self._tenant_id, place.session_id)
            dropped = await self._store.drop_turns(place, some)
            if dropped == NOTHING:
                # A turn began meanwhile: the next run deletes it.
                return
            self._note(place, dropped)
            await anyio.sleep(COMMIT_PAUSE_SECONDS)

    def _note(self, place: SessionAddress, dropped: Weight) -> None:
        self.done += _of(dropped)
        self._loaded.forget(self._tenant_id, place.session_id)

    def _busy(self, session: Session) -> bool:
        return self._loaded.busy(self._tenant_id, session.container_id, session.session_id)

    def _at_work(self, place: SessionAddress) -> bool:
        return self._loaded.busy(self._tenant_id, place.container_id, place.session_id)

    def _publish(self, session: Session, event: EventData) -> None:
        self._loaded.publish(self._tenant_id, EventScope(container_id=session.container_id, image_id=session.image_id), event)


async def _expiring(store: RetentionStore, cut: RetentionCutoffs) -> AsyncGenerator[tuple[Expiring, ...]]:
    for read in (store.expiring_stateless, *((store.expiring,) if cut.idle else ())):
        after: int | None = 0
        while after is not None:
            sessions = await read(cut, after, limit=PAGE_SESSIONS_MAX)
            yield sessions.items
            after = sessions.next


async def _paged(read: Callable[[int], Awaitable[SessionAddressPage]]) -> AsyncGenerator[SessionAddress]:
    after: int | None = 0
    while after is not None:
        page = await read(after)
        for place in page.items:
            yield place
        after = page.next


def _batches(turns: Sequence[OldTurn]) -> Iterator[list[OldTurn]]:
    """Yields batches of complete turns."""
    some, size = list[OldTurn](), 0
    for turn in turns:
        if some and size + turn.weight.messages > COMMIT_MESSAGES_MAX:
            yield some
            some, size = [], 0
        some.append(turn)
        size += turn.weight.messages
    if some:
        yield some
