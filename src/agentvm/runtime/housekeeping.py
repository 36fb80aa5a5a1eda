"""Housekeeping — what a runtime does beside its turns: recovery after a start, periodic work, and the end of every agent."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
import anyio.abc

from agentvm.errors import ShuttingDown
from agentvm.events.lifecycle import SessionDestroyed
from agentvm.runtime.agent import Agent
from agentvm.runtime.tasks import open_tasks

if TYPE_CHECKING:
    from agentvm.runtime.recovery.restart import Recovery
    from agentvm.runtime.runtime import Runtime


async def recover(recovery: "Recovery", runtime: "Runtime") -> None:
    """Finds the turns of the previous process."""
    try:
        await recovery.find()
    finally:
        # Also after a failure: whoever waits for it would wait for ever.
        runtime.recovered.set()


async def _keep(recovery: "Recovery", runtime: "Runtime", tasks: anyio.abc.TaskGroup) -> None:
    """Finds the turns of the previous process, if that is still to be done, and starts them and the periodic work."""
    if not runtime.recovered.is_set():
        try:
            await recover(recovery, runtime)
        except ShuttingDown:
            # The next start finds them.
            return
    tasks.start_soon(recovery.run)
    tasks.start_soon(runtime.keep_house)


@asynccontextmanager
async def housekeeping(recovery: "Recovery", runtime: "Runtime") -> AsyncIterator[None]:
    """Keeps a runtime in order; leaving stops every agent."""
    async with open_tasks() as tasks:
        tasks.start_soon(_keep, recovery, runtime, tasks)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await runtime.drain(grace=0)
            tasks.cancel_scope.cancel()


async def say_goodbye(agent: Agent) -> None:
    """Tells the session's subscribers that its agent is gone; also to the end, whoever asked."""
    event = SessionDestroyed(session_id=agent.session_id, agent_id=agent.agent_id, container_id=agent.container_id)
    with anyio.CancelScope(shield=True):
        await agent.writer.tell((event,))
