"""Statements and commits of a short turn, counted, and what a turn may do before it is committed."""

from collections import Counter
from pathlib import Path

import anyio
import apsw
import pytest
from tests.runtime.fixtures import World, open_world, types

from agentvm.drivers.scripted import ScriptedDriver
from agentvm.errors import StoreFailed
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.runtime import commit_pace
from agentvm.runtime.lifecycle import AgentState
from agentvm.storage.engines.sqlite.connection import SqliteConnection

pytestmark = pytest.mark.anyio

_TURN = {
    # The commit that accepts it, with the announcement of the call.
    "UPDATE sessions": 2,
    "UPDATE images": 1,
    "INSERT all_messages": 2,
    "INSERT message_facts": 2,
    "INSERT search_pending": 2,
    "INSERT turns": 1,
    "INSERT asked": 1,
    "INSERT journal": 1,
    # The commit that ends it.
    "UPDATE turns": 1,
    "INSERT log": 1,
    "INSERT ledger": 1,
    "DELETE asked": 1,
    "DELETE journal": 1,
    "UPDATE erasures": 1,
}
"""The whole of a turn of one model call: whoever adds a statement pays for it in each turn of everybody."""


def _short(sql: str) -> str | None:
    words = [word for word in sql.replace("(", " ").split() if word not in ("INTO", "FROM")]
    return f"{words[0]} {words[1]}" if words[0] in ("INSERT", "UPDATE", "DELETE", "SELECT") else None


async def _warm(world: World) -> None:
    agent = world.start()
    await world.say(agent, "first")
    await world.hear("turn_response")
    await agent.rest()
    world.heard.clear()


@pytest.mark.usefixtures("sqlite_file")
async def test_a_short_turn_is_two_commits_and_a_known_number_of_statements(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # As long as the slowest machine needs for an answer, so that its deltas are in one commit.
    monkeypatch.setattr(commit_pace, "COMMIT_INTERVAL_SECONDS", 0.5)
    statements: Counter[str] = Counter()
    commits = 0

    def note(cursor: apsw.Cursor, sql: str, bindings: object) -> bool:
        nonlocal commits
        commits += sql == "COMMIT"
        if (short := _short(sql)) is not None:
            statements[short] += 1
        return True

    def listen(connection: SqliteConnection) -> None:
        connection.raw.exec_trace = note

    async with open_world(ScriptedDriver(), path=tmp_path / "a.db") as world:
        await _warm(world)
        await world.store._database.write(listen)  # type: ignore[arg-type]  # the engine's own connection
        statements.clear()
        commits = 0
        await world.say(world.start(), "second")
        await world.hear("turn_response")
        await world.start().rest()
        assert (dict(statements), commits) == (_TURN, 2)


async def test_nothing_leaves_before_the_turn_is_committed_and_released() -> None:
    driver = ScriptedDriver()
    async with open_world(driver) as world:
        await _warm(world)
        agent = world.start()
        accepted = await agent.receive("second")
        assert accepted.begun
        await anyio.wait_all_tasks_blocked()
        assert (len(driver.prompts), agent.state) == (1, AgentState.RUNNING)
        agent.release(accepted)
        await world.hear("turn_response")
        assert len(driver.prompts) == 2
        assert [type(said).__name__ for said in driver.prompts[1].conversation] == ["UserEntry", "AssistantEntry", "UserEntry"]


async def test_a_turn_that_cannot_be_stored_was_never_begun() -> None:
    driver = ScriptedDriver()
    failing = False
    async with open_world(driver, fails=lambda number: failing) as world:
        await _warm(world)
        agent = world.start()
        failing = True
        with pytest.raises(StoreFailed):
            await agent.receive("lost")
        await agent.rest()
        failing = False
        assert (len(driver.prompts), agent.state, agent.busy) == (1, AgentState.IDLE, False)
        assert types(world.hear_nowait()) == []
        await world.say(agent, "third")
        await world.hear("turn_response")
        assert [message.role for message in await world.messages()] == ["user", "assistant"] * 2
        assert "lost" not in str(driver.prompts[-1].conversation)
        assert len(await world.turns()) == 2


async def test_a_turn_that_is_stopped_before_its_release_has_one_end_and_asks_nobody() -> None:
    driver = ScriptedDriver()
    async with open_world(driver) as world:
        await _warm(world)
        agent = world.start()
        await agent.receive("second")
        with anyio.fail_after(60):
            await agent.stop()
        heard = await world.hear("turn_response")
        assert types(heard)[-3:] == ["message_stop", "conversation_end", "turn_response"]
        assert len(driver.prompts) == 1
        assert [turn.outcome for turn in await world.turns()] == ["completed", "interrupted"]
        assert await world.store.list_sent_calls() == ()
        assert len(await world.store.accounts(DEFAULT_TENANT).ledger.list()) == 1
