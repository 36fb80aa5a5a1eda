"""The conformance suite of the store on every engine. Another engine is one more entry of `ENGINES`."""

import os
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import anyio
import pytest
from tests.conformance.suite import CHECKS

from agentvm.storage.engine import open_store
from agentvm.storage.engines.postgres import opening as postgres
from agentvm.storage.sql.store import Store

Engine = Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[Store]]

ENGINES: dict[str, Engine] = {
    "sqlite": lambda request: open_store(request.getfixturevalue("tmp_path") / "agentvm.db"),
    "postgres": lambda request: postgres.open_store(request.getfixturevalue("emptied_url"), readers=1),
}


# Searches and folded texts, whose functions differ between versions, and some of all others.
ON_THE_OLDEST = [
    check
    for number, check in enumerate(CHECKS)
    if number % 6 == 0 or "search" in check.__module__ or os.environ.get("AVM_CHECKS")
]
"""Checks that are run on the oldest PostgreSQL, too; all of them with AVM_CHECKS=all."""


@pytest.mark.parametrize("check", ON_THE_OLDEST, ids=lambda check: check.__name__)
async def test_the_store_conforms_on_the_oldest_postgresql(
    check: Callable[[Store], Awaitable[None]], oldest_emptied_url: str
) -> None:
    with anyio.fail_after(60):
        async with postgres.open_store(oldest_emptied_url, readers=1) as store:
            await check(store)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: f"{check.__module__.rpartition('.')[2]}-{check.__name__}")
async def test_the_store_conforms(
    check: Callable[[Store], Awaitable[None]], engine: str, request: pytest.FixtureRequest
) -> None:
    with anyio.fail_after(60):
        async with ENGINES[engine](request) as store:
            await check(store)
