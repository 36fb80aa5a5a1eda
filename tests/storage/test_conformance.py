"""The conformance suite of the store on every engine. Another engine is one more entry of `ENGINES`."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio
import pytest
from tests.conformance.suite import CHECKS

from agentvm.storage.engine import open_store
from agentvm.storage.sql.store import Store

ENGINES: dict[str, Callable[[Path], AbstractAsyncContextManager[Store]]] = {
    "sqlite": lambda folder: open_store(folder / "agentvm.db"),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: f"{check.__module__.rpartition('.')[2]}-{check.__name__}")
async def test_the_store_conforms(check: Callable[[Store], Awaitable[None]], engine: str, tmp_path: Path) -> None:
    with anyio.fail_after(60):
        async with ENGINES[engine](tmp_path) as store:
            await check(store)
