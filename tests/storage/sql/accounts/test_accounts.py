from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

from agentvm.storage.engine import open_store
from agentvm.storage.sql.store import Store
from agentvm.testing.conformance import accounts, ledger

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("place", ["file", "memory"])
@pytest.mark.parametrize("check", accounts.CHECKS + ledger.CHECKS)
async def test_accounts_conform(check: Callable[[Store], Awaitable[None]], place: str, tmp_path: Path) -> None:
    with anyio.fail_after(20):
        async with open_store(tmp_path / "agentvm.db" if place == "file" else None) as store:
            await check(store)
