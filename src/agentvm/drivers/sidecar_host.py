"""Sidecar host — starts the embedded model's process when it is needed and ends it when it is not.

A life is one process, owned by one task: born at the first lease, over when it crashes, when it was not leased for a while,
when a caller could not reach it, or when the host is left. A life that is over is never leased again; the next lease begins
another.
"""

import os
import secrets
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import anyio
import anyio.abc
import httpx2
import msgspec
from anyio.streams.buffered import BufferedByteReceiveStream

from agentvm.drivers.sidecar import SidecarOptions
from agentvm.errors import ModelUnavailable, ProviderOverloaded, ProviderUnreachable
from agentvm.sharing.process_life import ProcessLife

IDLE_SECONDS = 300.0
START_SECONDS = 120.0
LIVES_MAX = 2
"""Models in memory at a time."""

_LINE_BYTES = 65536

# The variables that a Python program needs to start, and no others: the child must not inherit any keys.
_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "TMPDIR", "SYSTEMROOT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The number of chats a model holds at a time, and the tokens of each."""

    slots: int
    window: int
    pooling: Literal["", "own", "mean"] = ""
    """How a model that embeds makes one vector of a text."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a living sidecar, and its key."""

    url: str
    key: str


class _Answer(msgspec.Struct):
    url: str = ""
    error: str = ""


class _Life(ProcessLife):
    endpoint: Endpoint | None = None


class SidecarHost:
    """Leases out one process per model."""

    def __init__(self, tasks: anyio.abc.TaskGroup, *, idle: float, patience: float, command: Sequence[str]) -> None:
        self._tasks = tasks
        self._idle = idle
        self._patience = patience
        self._command = command
        self._lives: dict[Path, _Life] = {}

    @property
    def process_ids(self) -> list[int]:
        """Ids of the sidecars alive now."""
        return [life.process_id for life in self._lives.values() if life.process_id is not None and not life.over]

    @asynccontextmanager
    async def lease(self, model: Path, shape: Shape) -> AsyncIterator[Endpoint]:
        """A sidecar that serves this model, for as long as the context lasts. Starts one if there is none."""
        life = self._lives.get(model)
        if life is None or life.over:
            life = self._begin(model, shape)
        life.hold(1)
        try:
            await life.ready.wait()
            if life.endpoint is None:
                raise ModelUnavailable(f"the embedded model could not be started: {life.failure}")
            yield life.endpoint
        except (ProviderUnreachable, httpx2.TransportError):
            # The death may not have been noticed yet; the next call must not try it again.
            life.end()
            raise
        finally:
            life.hold(-1)

    def _begin(self, model: Path, shape: Shape) -> _Life:
        self._lives = {path: life for path, life in self._lives.items() if not life.over}
        if len(self._lives) >= LIVES_MAX:
            idle = next((life for life in self._lives.values() if not life.is_leased), None)
            if idle is None:
                raise ProviderOverloaded(f"{LIVES_MAX} other embedded models are at work; try again when one is done")
            idle.end()
        life = self._lives[model] = _Life()
        self._tasks.start_soon(self._live, life, model, shape)
        return life

    async def _live(self, life: _Life, model: Path, shape: Shape) -> None:
        orders = _orders(model, shape)
        try:
            # A start that is cancelled half-way leaves the process behind.
            with anyio.CancelScope(shield=True):
                process = await anyio.open_process(
                    self._command,
                    env=_environment(os.environ),
                    # A session of its own: a Ctrl-C in our terminal is for us to handle.
                    start_new_session=True,
                )
        except OSError as error:
            life.failure = f"its program cannot be started: {error.strerror}"
            life.end()
            return
        life.process_id = process.pid
        async with process:
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(life.watch, process)
                    await _start(process, orders, life, self._patience)
                    await life.wait_over(self._idle)
                    tasks.cancel_scope.cancel()
            finally:
                life.end()
                with suppress(ProcessLookupError):
                    process.kill()


async def _start(process: anyio.abc.Process, orders: SidecarOptions, life: _Life, seconds: float) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    life.failure = f"it did not answer within {seconds:g} s"
    with anyio.move_on_after(seconds):
        try:
            await process.stdin.send(msgspec.json.encode(orders) + b"\n")
            line = await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", _LINE_BYTES)
            answer = msgspec.json.decode(line, type=_Answer)
        except (anyio.BrokenResourceError, anyio.EndOfStream, anyio.IncompleteRead):
            # The last words are on stderr, which the watcher reads to the end.
            await life.ready.wait()
            return
        except (anyio.DelimiterNotFound, msgspec.DecodeError):
            answer = _Answer(error="it answered nonsense")
        if answer.url:
            life.endpoint = Endpoint(answer.url, orders["api_key"])
            life.ready.set()
            return
        life.failure = answer.error
    life.end()


def _orders(model: Path, shape: Shape) -> SidecarOptions:
    return SidecarOptions(
        parent=os.getpid(),
        model=str(model),
        alias=model.stem,
        api_key=secrets.token_urlsafe(32),
        threads=_threads(),
        slots=shape.slots,
        window=shape.window,
        pooling=shape.pooling,
    )


def _threads() -> int:
    """Leaves one core for the server; more threads than cores fall to a tenth of the speed."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return max(1, cores - 1)


def _environment(ours: Mapping[str, str]) -> dict[str, str]:
    # llama.cpp's threads spin while they wait; on a busy core that costs more than half of the speed.
    return {name: ours[name] for name in _ENVIRONMENT if name in ours} | {"GOMP_SPINCOUNT": "0"}


@asynccontextmanager
async def open_host(
    *,
    idle_seconds: float = IDLE_SECONDS,
    start_seconds: float = START_SECONDS,
    # Run by path and without the script's directory on the import path: our `openai.py` lies beside it.
    command: Sequence[str] = (sys.executable, "-P", str(Path(__file__).with_name("sidecar.py"))),
) -> AsyncIterator[SidecarHost]:
    """Yields a host whose processes are all gone when the context is left."""
    tasks = anyio.create_task_group()
    await tasks.__aenter__()
    try:
        yield SidecarHost(tasks, idle=idle_seconds, patience=start_seconds, command=command)
    finally:
        # Not `async with`: it would wrap the caller's exception in an exception group.
        tasks.cancel_scope.cancel()
        await tasks.__aexit__(None, None, None)
