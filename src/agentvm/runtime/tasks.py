"""Tasks — a task group whose only failure is raised as itself, not as a group of one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.abc


@asynccontextmanager
async def open_tasks() -> AsyncIterator[anyio.abc.TaskGroup]:
    """For contexts that users enter: an error raised in their body must reach them as they raised it."""
    try:
        async with anyio.create_task_group() as tasks:
            yield tasks
    except BaseExceptionGroup as group:
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from group.exceptions[0].__cause__
        raise
