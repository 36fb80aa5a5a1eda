"""MCP pool — connections to servers, each with an owner, a lease and a reaper.

A connection is opened by the first call that needs it, leased to each call, and closed when it was not used for a while. One
that keeps failing is left alone for some minutes. When the pool is left, every connection has ended.
"""

import math
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import anyio

from agentvm.errors import AgentVMError, ToolFailed
from agentvm.errors.tool import EgressRefused, McpConsentRequired, SecretNotGranted, TierBroken, TierUnavailable, WorkspaceFull
from agentvm.log import get_logger

if TYPE_CHECKING:
    from agentvm.tools.mcp.connection import McpConnection

logger = get_logger(__name__)

IDLE_SECONDS = 60.0
PER_TENANT_MAX = 20
EVERYBODY = ""
"""Stands for the tenant of a process that all tenants share; there are as many of those as the operator has set up."""
RESTARTS_MAX = 3
RESTART_WINDOW_SECONDS = 300.0
BROKEN_SECONDS = 300.0

Open = Callable[[], Awaitable["McpConnection"]]
"""Makes a connection that does not run yet."""


@dataclass(frozen=True, slots=True)
class PoolKey:
    """A connection is shared by calls with the same key. `scope` names its users, `tenant_id` the tenant it counts for."""

    server: str
    scope: Hashable
    tenant_id: str


@dataclass(slots=True)
class _Entry:
    connection: "McpConnection | None" = None
    opened: anyio.Event = field(default_factory=anyio.Event)
    failure: AgentVMError | None = None
    leases: int = 0
    idle_since: float = math.inf
    idle_seconds: float = IDLE_SECONDS


@dataclass(frozen=True, slots=True)
class _Broken:
    """A server that is left alone for a while, and its last failure."""

    until: float
    cause: str


class McpPool:
    """Enter it to open connections; leaving it closes them all."""

    def __init__(self, *, clock: Callable[[], float] = anyio.current_time) -> None:
        self._clock = clock
        self._entries: dict[PoolKey, _Entry] = {}
        self._failures: dict[PoolKey, deque[float]] = {}
        self._broken: dict[PoolKey, _Broken] = {}
        self._wake = anyio.Event()
        self._stack = AsyncExitStack()
        self.started = 0
        """Connections opened so far."""

    async def __aenter__(self) -> Self:
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        self._tasks.start_soon(self._reap)
        return self

    async def __aexit__(self, *_: object) -> None:
        for entry in self._entries.values():
            if entry.connection is not None:
                entry.connection.close()
        with anyio.CancelScope(shield=True):
            for entry in tuple(self._entries.values()):
                if entry.connection is not None:
                    await entry.connection.ended.wait()
        self._tasks.cancel_scope.cancel()
        await self._stack.__aexit__(None, None, None)

    @property
    def alive(self) -> int:
        return len(self._entries)

    @asynccontextmanager
    async def lease(self, key: PoolKey, open: Open, *, idle_seconds: float = IDLE_SECONDS) -> AsyncIterator["McpConnection"]:
        """Holds a connection for one call, opening it if there is none. A failure to open is a `ToolFailed`."""
        entry = self._entry(key, open, idle_seconds)
        entry.leases += 1
        try:
            await entry.opened.wait()
            if entry.connection is None:
                raise entry.failure or ToolFailed("The MCP server could not be started")
            await entry.connection.ready.wait()
            if entry.connection.ended.is_set():
                raise entry.connection.ending()
            yield entry.connection
        finally:
            entry.leases -= 1
            entry.idle_since = self._clock()
            if entry.connection is not None and not entry.connection.usable and not entry.leases:
                entry.connection.kill()
            self._wake.set()

    def _entry(self, key: PoolKey, open: Open, idle_seconds: float) -> _Entry:
        entry = self._entries.get(key)
        if entry is not None and (entry.connection is None or entry.connection.usable):
            return entry
        if entry is not None and not entry.leases and entry.connection is not None:
            entry.connection.kill()
        self._check_budget(key)
        self._make_room(key.tenant_id)
        entry = self._entries[key] = _Entry(idle_seconds=idle_seconds)
        self.started += 1
        self._tasks.start_soon(self._run, key, entry, open)
        return entry

    def _check_budget(self, key: PoolKey) -> None:
        broken, now = self._broken.get(key), self._clock()
        if broken is not None and broken.until > now:
            raise ToolFailed(
                f"{key.server} failed {RESTARTS_MAX} times within {RESTART_WINDOW_SECONDS / 60:g} minutes; "
                f"it is tried again in {broken.until - now:.0f} seconds. The last failure: {broken.cause}"
            )

    def _make_room(self, tenant_id: str) -> None:
        own = {key: entry for key, entry in self._entries.items() if key.tenant_id == tenant_id and _lives(entry)}
        if len(own) < PER_TENANT_MAX or tenant_id == EVERYBODY:
            return
        idle = [key for key, entry in own.items() if not entry.leases]
        if not idle:
            raise ToolFailed(f"{PER_TENANT_MAX} MCP servers are in use already; try again when one of their calls has ended")
        self._close(min(idle, key=lambda key: own[key].idle_since))

    async def _run(self, key: PoolKey, entry: _Entry, open: Open) -> None:
        try:
            entry.connection = await open()
        except AgentVMError as error:
            entry.failure = error
        finally:
            entry.opened.set()
        connection = entry.connection
        if connection is not None:
            await connection.run()
        failure = entry.failure if connection is None else connection.failure
        if self._entries.get(key) is entry:
            del self._entries[key]
        if failure is None:
            return
        logger.info("mcp.connection_ended", server=key.server, cause=str(failure))
        if _is_of_server(failure):
            self._count_failure(key, str(failure))

    def _count_failure(self, key: PoolKey, cause: str) -> None:
        now = self._clock()
        recent = self._failures.setdefault(key, deque())
        recent.append(now)
        while recent[0] < now - RESTART_WINDOW_SECONDS:
            recent.popleft()
        if len(recent) >= RESTARTS_MAX:
            del self._failures[key]
            self._broken[key] = _Broken(now + BROKEN_SECONDS, cause)
            logger.warning("mcp.server_broken", server=key.server, seconds=BROKEN_SECONDS)

    def drop(self, key: PoolKey) -> None:
        """Ends a connection, if there is one."""
        if key in self._entries:
            self._close(key)

    def _close(self, key: PoolKey) -> None:
        connection = self._entries.pop(key).connection
        if connection is not None:
            connection.close()

    async def _reap(self) -> None:
        """Closes idle connections, and forgets old failures. Sleeps until the next of them is due."""
        while True:
            self._wake = anyio.Event()
            now = self._clock()
            for key in [key for key, due in self._due() if due <= now]:
                self._close(key)
            self._forget(now)
            delay = min((due for _, due in self._due()), default=math.inf) - now
            with anyio.move_on_after(min(delay, RESTART_WINDOW_SECONDS)):
                await self._wake.wait()

    def _due(self) -> Iterator[tuple[PoolKey, float]]:
        for key, entry in self._entries.items():
            if not entry.leases:
                yield key, entry.idle_since + entry.idle_seconds

    def _forget(self, now: float) -> None:
        self._broken = {key: broken for key, broken in self._broken.items() if broken.until > now}
        window = now - RESTART_WINDOW_SECONDS
        self._failures = {key: times for key, times in self._failures.items() if times[-1] > window}


def _lives(entry: _Entry) -> bool:
    return entry.connection is None or not entry.connection.ended.is_set()


def _is_of_server(failure: AgentVMError) -> bool:
    """Whether a server has failed; false where it was not asked, because a grant or sandbox is missing or refused here."""
    if isinstance(failure, TierBroken):
        return True
    return not isinstance(failure, EgressRefused | McpConsentRequired | SecretNotGranted | TierUnavailable | WorkspaceFull)
