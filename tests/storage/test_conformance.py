"""The conformance suite of the store on every engine. Another engine is one more fixture for `store`."""

import os

import anyio
import pytest
from tests.conformance.suite import CHECKS, Check
from tests.provision.postgres import OLDER, OLDEST

from agentvm.storage.sql.store import Store

ALL = "AVM_CHECKS" in os.environ
# Searches and folded texts, whose functions differ between versions, and some of all others.
SOME = [check for number, check in enumerate(CHECKS) if ALL or number % 6 == 0 or "search" in check.__module__]
"""Checks that are run on older PostgreSQLs and in memory, too; all of them on all versions with AVM_CHECKS=all."""


@pytest.mark.parametrize("older_postgres", OLDER if ALL else [OLDEST], indirect=True)
@pytest.mark.parametrize("check", SOME, ids=lambda check: check.__name__)
async def test_the_store_conforms_on_older_postgresqls(check: Check, older_postgres_store: Store) -> None:
    with anyio.fail_after(60):
        await check(older_postgres_store)


@pytest.mark.parametrize("store", ["memory"], indirect=True)
@pytest.mark.parametrize("check", SOME, ids=lambda check: check.__name__)
async def test_the_store_conforms_in_memory(check: Check, store: Store) -> None:
    """What differs is where SQLite keeps its pages; thousands of other tests have their stores there."""
    with anyio.fail_after(60):
        await check(store)


@pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: f"{check.__module__.rpartition('.')[2]}-{check.__name__}")
async def test_the_store_conforms(check: Check, store: Store) -> None:
    with anyio.fail_after(60):
        await check(store)
