"""Suite — all checks of the store, for every engine: each is a coroutine over an empty store.

@pytest.mark.parametrize("check", CHECKS)
async def test_the_store_conforms(check): ...
"""

from collections.abc import Awaitable, Callable

from agentvm.storage.sql.store import Store
from agentvm.testing.conformance import (
    accounts,
    attachments,
    carry,
    definitions,
    drafts,
    erasing,
    ledger,
    log,
    readers,
    resource_life,
    resource_search,
    resources,
    retention,
    session_search,
    sessions,
    settings,
    store,
    summaries,
)

CHECKS: tuple[Callable[[Store], Awaitable[None]], ...] = (
    *store.CHECKS,
    *readers.CHECKS,
    *log.CHECKS,
    *sessions.CHECKS,
    *session_search.CHECKS,
    *summaries.CHECKS,
    *drafts.CHECKS,
    *retention.CHECKS,
    *attachments.CHECKS,
    *carry.SUITE,
    *resources.CHECKS,
    *resource_search.CHECKS,
    *resource_life.CHECKS,
    *definitions.CHECKS,
    *settings.CHECKS,
    *accounts.CHECKS,
    *ledger.CHECKS,
    *erasing.CHECKS,
)
