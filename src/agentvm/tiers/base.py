"""Tier base — the port of a place where foreign code runs, and of the processes in it."""

import os
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from agentvm.model.tier import Job, JobResult, Offer, TierName

HostCalls = Callable[[str, dict[str, object]], Awaitable[object]]
"""Carries out a call of a function of the server by jailed code. Returns JSON; an `AgentVMError` is told to the code."""

RemoteRequest = Callable[[str, str, bytes, float], Awaitable[tuple[int, bytes]]]
"""Asks another AgentVM: method, path, JSON, and the seconds it may take. Returns the status and the body, which is bounded;
a failure of the connection is a `ToolFailed`."""


def default_slots() -> int:
    """Jobs that run on the tier `process` at a time, unless `tools.slots` is set."""
    return 2 * (os.cpu_count() or 1)


class Process(Protocol):
    """A program that lives on and is talked to by lines or bytes: an MCP server over stdio."""

    async def send(self, data: bytes) -> None:
        """Writes to its stdin; waits while it does not read."""
        ...

    async def receive(self) -> bytes:
        """The next piece of its stdout; empty when it has ended."""
        ...

    @property
    def stderr_tail(self) -> str:
        """The end of its stderr."""
        ...


class Tier(Protocol):
    """A place where foreign code runs. Nothing of a job outlives it."""

    @property
    def name(self) -> TierName: ...

    async def offer(self) -> Offer:
        """The abilities of the tier on this machine. Tried once, then known."""
        ...

    async def run(self, job: Job, calls: HostCalls | None = None) -> JobResult:
        """Runs a job to its end. A cancelled one is killed and reaped before this returns.

        Raises `TierBroken` if a wall could not be built, `WorkspaceFull` if the files do not fit.
        """
        ...

    def open(self, job: Job) -> AbstractAsyncContextManager[Process]:
        """Starts a program that lives until the context is left."""
        ...
