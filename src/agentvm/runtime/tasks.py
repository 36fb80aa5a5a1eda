"""Tasks — a task group whose failure is raised as itself, not as a group of one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.abc

from agentvm.errors import AgentVMError


@asynccontextmanager
async def open_tasks() -> AsyncIterator[anyio.abc.TaskGroup]:
    """For contexts that users enter: an error raised in their body must reach them as they raised it.

    Of several expected errors the first is raised: tasks that read at the same time all fail when the disk does.
    """
    try:
        async with anyio.create_task_group() as tasks:
            yield tasks
    except BaseExceptionGroup as group:
        first, *others = group.exceptions
        if not others or all(isinstance(error, AgentVMError) for error in group.exceptions):
            raise first from first.__cause__
        raise
