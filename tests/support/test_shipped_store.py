"""Stores with the resources that ship with the server, for tests."""

from pathlib import Path

import anyio
from tests.support.shipped_store import open_shipped_store

from agentvm.model.resource import SYSTEM_TENANT
from agentvm.storage.engine import open_store


async def test_stores_that_are_opened_at_once_leave_ordinary_ones_empty(tmp_path: Path) -> None:
    both_open = anyio.Event()
    stores: list[Path] = []

    async def use(path: Path) -> None:
        async with open_shipped_store(path):
            stores.append(path)
            if len(stores) == 2:
                both_open.set()
            await both_open.wait()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(use, tmp_path / "a.db")
            tasks.start_soon(use, tmp_path / "b.db")
        async with open_shipped_store(tmp_path / "c.db") as shipped, open_store(tmp_path / "d.db") as ordinary:
            assert await shipped.resources(SYSTEM_TENANT).count() > 0
            assert await ordinary.resources(SYSTEM_TENANT).count() == 0
