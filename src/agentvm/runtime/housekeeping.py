"""Housekeeping — the work of a runtime beside its turns: recovery after a start, periodic work, and the end of every agent."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
import anyio.abc

from agentvm.errors import ShuttingDown
from agentvm.errors.cluster import SessionMoved
from agentvm.events.lifecycle import SessionDestroyed
from agentvm.model.node import TurnScope
from agentvm.runtime.agent import Agent
from agentvm.runtime.tasks import open_tasks

if TYPE_CHECKING:
    from agentvm.runtime.recovery.restart import Recovery
    from agentvm.runtime.runtime import Runtime

SHUTDOWN_TRIES_MAX = 3


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
    tasks.start_soon(runtime.housekeep)


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


async def announce_shutdown(agent: Agent) -> None:
    """Notifies the session's subscribers that its agent has ended; completed even if the caller is cancelled."""
    event = SessionDestroyed(session_id=agent.session_id, agent_id=agent.agent_id, container_id=agent.container_id)
    with anyio.CancelScope(shield=True):
        for _ in range(SHUTDOWN_TRIES_MAX):
            try:
                await agent.writer.write((event,))
            except SessionMoved as moved:
                if moved.runner is not None:
                    # Its turns have moved with the session: subscribers hear of them from there.
                    return
                # Another node has run a turn since; its events have been read by now.
            else:
                return


async def stop_turns(runtime: "Runtime", scope: TurnScope) -> None:
    """Ends such turns of this process, with their agents."""
    async with open_tasks() as tasks:
        for agent in runtime.roster:
            if scope.covers(agent.tenant_id, agent.container_id, agent.image_id, agent.session_id):
                tasks.start_soon(runtime.stop_agent, agent)
