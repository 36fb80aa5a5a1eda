from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

from agentvm.model.ids import SessionId, TurnId
from agentvm.storage.engine import open_store
from agentvm.storage.sql.store import Store
from agentvm.testing.conformance import session_search, sessions
from agentvm.testing.conformance.records import HOME, image, session, turn
from agentvm.testing.conformance.sessions import said
from agentvm.testing.conformance.store import ACME, settle

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("place", ["file", "memory"])
@pytest.mark.parametrize("check", sessions.CHECKS + session_search.CHECKS)
async def test_sessions_conform(check: Callable[[Store], Awaitable[None]], place: str, tmp_path: Path) -> None:
    with anyio.fail_after(20):
        async with open_store(tmp_path / "agentvm.db" if place == "file" else None) as store:
            await check(store)


async def test_of_a_deleted_session_neither_its_turns_nor_its_size_are_seen() -> None:
    async with open_store(None) as store:
        home = await settle(store, image())
        other = SessionId("s2")
        await home.add_session(session(other))
        await home.log(other).record(messages=[said("m1", "hello", 1)], turns=[turn("t1", outcome="completed", ended=2)], now=2)
        tenant, carrier = store.tenant(ACME), store.carrier(ACME)
        assert await tenant.find_turn(TurnId("t1")) is not None
        assert await carrier.measure(HOME) > 0
        assert await tenant.sessions((HOME,)).delete(other, 8) is not None
        assert await tenant.find_turn(TurnId("t1")) is None
        assert await carrier.measure(HOME) == 0
