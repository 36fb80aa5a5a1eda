"""Suite — all checks of the store, for every engine: each is a coroutine `check_…` over an empty store.

@pytest.mark.parametrize("check", CHECKS)
async def test_the_store_conforms(check): ...
"""

from collections.abc import Awaitable, Callable

from agentvm.storage.sql.store import Store
from tests.conformance import (
    account_changes,
    accounts,
    attachments,
    carry,
    collections,
    definitions,
    drafts,
    erasing,
    knowledge,
    ledger,
    log,
    memories,
    readers,
    resource_life,
    resource_search,
    resources,
    retention,
    session_files,
    session_search,
    sessions,
    settings,
    store,
    store_items,
    summaries,
)

MODULES = (
    account_changes, accounts, attachments, carry, collections, definitions, drafts, erasing, knowledge, ledger, log, memories,
    readers, resource_life, resource_search, resources, retention, session_files, session_search, sessions, settings, store,
    store_items, summaries,
)  # fmt: skip

Check = Callable[[Store], Awaitable[None]]

CHECKS: tuple[Check, ...] = tuple(
    check
    for module in MODULES
    for name, check in vars(module).items()
    if name.startswith("check_") and check.__module__ == module.__name__
)
