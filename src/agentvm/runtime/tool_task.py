"""Tool task — one tool at work, in a task of its own, with a deadline that its progress moves.

A tool that continues after it was cancelled is abandoned behind a shield: neither its turn, nor the user who stopped that
turn, nor the shutdown of the server waits for its end. Hence it is in no task group.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import anyio

from agentvm.errors import AgentVMError, ToolFailed
from agentvm.log import get_logger
from agentvm.tools.base import CallProgress

CANCEL_SECONDS = 0.15
"""Time that a cancelled tool has to close its sockets and processes."""
PROGRESS_SECONDS = 0.25
"""The least time between two reports of progress that are told."""

logger = get_logger(__name__)

Result = TypeVar("Result")

_abandoned: set["asyncio.Task[None]"] = set()
"""Tools that continue although they were stopped; the loop itself does not keep its tasks."""


class ToolTask(Generic[Result]):
    """Runs a tool. `on_abandoned` is called when it has not heeded its cancellation."""

    def __init__(
        self,
        name: str,
        work: Callable[[], Awaitable[Result]],
        *,
        timeout_seconds: float,
        seconds_max: float,
        on_abandoned: Callable[[], None] | None = None,
    ) -> None:
        now = anyio.current_time()
        self._name = name
        self._work = work
        self._timeout_seconds = min(timeout_seconds, seconds_max)
        self._last = now + seconds_max
        self._scope = anyio.CancelScope(deadline=now + self._timeout_seconds)
        self._on_abandoned = on_abandoned
        self._done = anyio.Event()
        self._task: asyncio.Task[None] | None = None
        self._cancelling, self._shield = anyio.CancelScope(), anyio.CancelScope()
        self._result: Result | None = None
        self._failure: AgentVMError | None = None

    def extend(self, more_seconds: float = 0.0) -> None:
        """Gives the tool its whole time again, and more if so, within the most that any call may take."""
        self._scope.deadline = min(anyio.current_time() + self._timeout_seconds + more_seconds, self._last)

    async def run(self) -> Result:
        """Returns the tool's result, or raises its error; `TimeoutError` at the deadline."""
        # Awaited below in every case, or abandoned, which a group does not do.
        self._task = asyncio.create_task(self._execute(), name=f"tool {self._name}")  # noqa: TID251
        try:
            with self._scope:
                await self._done.wait()
        except anyio.get_cancelled_exc_class():
            await self._stop()
            raise
        if not self._done.is_set():
            await self._stop()
            raise TimeoutError
        if self._failure is not None:
            raise self._failure
        return self._result  # type: ignore[return-value]  # There is one unless there is a failure.

    async def _execute(self) -> None:
        try:
            with self._cancelling, self._shield:
                self._result = await self._work()
        except asyncio.CancelledError:
            if anyio.current_effective_deadline() == -math.inf:
                raise
            # Nobody cancelled the tool: something that it waited for was. Passed on, it would end the group.
            self._failure = ToolFailed(f"{self._name} was cancelled from within")
        except SystemExit:
            # It would end the server.
            self._failure = ToolFailed(f"{self._name} tried to end its process")
        except AgentVMError as error:
            self._failure = error
        except Exception:  # Protects the turn: the model can continue without this result.
            logger.exception("tool_crashed", tool=self._name)
            self._failure = ToolFailed(f"{self._name} failed because of an internal error")
        finally:
            self._done.set()

    async def _stop(self) -> None:
        self._cancelling.cancel()
        with anyio.CancelScope(shield=True), anyio.move_on_after(CANCEL_SECONDS):
            await self._done.wait()
        if self._done.is_set() or self._task is None:
            return
        logger.warning("tool_abandoned", tool=self._name)
        # It would be cancelled again and again otherwise.
        self._shield.shield = True
        _abandoned.add(self._task)
        self._task.add_done_callback(_abandoned.discard)
        # A loop that closes waits for every task that it knows.
        asyncio._unregister_task(self._task)
        if self._on_abandoned is not None:
            self._on_abandoned()


class ProgressReports:
    """Sends the progress of a call, at most four times a second; of the reports in between, the last."""

    def __init__(self, tell: Callable[[CallProgress], None]) -> None:
        self._tell = tell
        self._held: CallProgress | None = None
        self._timer: asyncio.TimerHandle | None = None

    def report(self, progress: CallProgress) -> None:
        if self._timer is not None:
            self._held = progress
            return
        self._tell(progress)
        self._timer = asyncio.get_running_loop().call_later(PROGRESS_SECONDS, self._release)

    def close(self) -> None:
        """Sends the held-back report. Nothing is told any more after it."""
        if self._timer is not None:
            self._timer.cancel()
            if self._held is not None:
                self._tell(self._held)

    def _release(self) -> None:
        self._timer = None
        if self._held is not None:
            held, self._held = self._held, None
            self.report(held)
