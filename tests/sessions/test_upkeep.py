from collections.abc import Callable

import anyio
import pytest
from tests.conformance.sessions import mine, several
from tests.protocol.fixtures import event

from agentvm.errors import StoreFailed
from agentvm.events.lifecycle import SessionRewound
from agentvm.events.turn import TurnResponse
from agentvm.model.ids import MessageId, RewindId, SessionId, TenantId, TurnId
from agentvm.model.usage import Usage
from agentvm.sessions import upkeep
from agentvm.sessions.upkeep import SearchUpkeep, purge
from agentvm.storage.engine import open_store


class Tended:
    """A store that counts how often it is tended, and fails once."""

    def __init__(self, then: Callable[[int], None]) -> None:
        self.times, self._then = 0, then

    async def tend_search(self, *, limit: int = 200) -> bool:
        self.times += 1
        self._then(self.times)
        if self.times == 2:
            raise StoreFailed("full")
        return self.times == 1


async def test_the_search_is_tended_at_the_start_and_after_turns_and_rewinds_whatever_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upkeep, "DELAY_SECONDS", 0.0)
    reached = {2: anyio.Event(), 3: anyio.Event(), 4: anyio.Event()}
    store = Tended(lambda times: reached[times].set() if times in reached else None)
    kept = SearchUpkeep(store)  # type: ignore[arg-type]  # It only tends.
    ended = TurnResponse(
        turn_id=TurnId("t"),
        message_id=MessageId("m"),
        outcome="completed",
        stop_reason="end_turn",
        duration=1,
        usage=Usage(input_tokens=1, output_tokens=1),
        timestamp=1,
    )
    rewound = SessionRewound(session_id=SessionId("s"), rewind_id=RewindId("r"), message_ids=(), rewound_at=1)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(kept.run)
            await reached[2].wait()
            await anyio.wait_all_tasks_blocked()
            kept.react(event(ended))
            await reached[3].wait()
            await anyio.wait_all_tasks_blocked()
            kept.react(event(rewound))
            await reached[4].wait()
            tasks.cancel_scope.cancel()


async def test_what_was_deleted_too_long_ago_is_purged_and_forgotten() -> None:
    gone: list[tuple[TenantId, SessionId]] = []
    async with open_store(None) as store:
        await several(store, "a", "b")
        await mine(store).delete(SessionId("a"), 1_000)
        await mine(store).delete(SessionId("b"), 9_000)
        assert await purge(store, lambda: 10_000, 5.0, lambda *which: gone.append(which)) == 1
        assert gone == [("acme", "a")]
