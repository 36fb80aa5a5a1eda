"""Calls of turns that are stopped, or whose server dies: each has one result, and none runs twice."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.runtime.fixtures import open_world, tool
from tests.runtime.test_parking import Hammer, answer, asked_for, open_waits, parked, results

from agentvm.drivers.scripted import ScriptedDriver
from agentvm.errors import AgentVMError, StoreFailed
from agentvm.model.message import ToolCallMessage
from agentvm.runtime import calls
from agentvm.runtime.batch import Batch
from agentvm.runtime.journal import Journal
from agentvm.runtime.session_log import SessionLog
from agentvm.runtime.tool_step import CallRunner
from agentvm.runtime.tools import Tool
from agentvm.storage.sql.store import TenantStore

pytestmark = pytest.mark.anyio


async def test_a_turn_that_is_stopped_after_an_approval_and_before_the_call_gives_the_call_a_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hammer = Hammer()
    async with parked(hammer, ("c1", "hammer")) as (world, (wait,)):
        agent = world.start()
        decide = CallRunner._next

        async def decide_and_stop(runner: CallRunner, pending: Any) -> Any:
            action = await decide(runner, pending)
            agent.cancel(agent._running)
            return action

        monkeypatch.setattr(CallRunner, "_next", decide_and_stop)
        await answer(world, wait)
        await world.hear("turn_response")
        assert hammer.calls == []
        assert await results(world) == [("c1", "execution-denied", calls.NOT_BEGUN)]


async def test_a_call_that_is_stopped_while_it_runs_has_a_result_that_says_so() -> None:
    begun = anyio.Event()

    async def strike(arguments: dict[str, object]) -> object:
        begun.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with open_world(asked_for(("c1", "strike")), tools=[tool("strike", strike)]) as world:
        agent = world.start()
        await world.say(agent, "go")
        with anyio.fail_after(60):
            await begun.wait()
        agent.cancel(await agent.interrupt())
        await world.hear("turn_response")
        assert await results(world) == [("c1", "error-text", calls.STOPPED)]


async def test_a_call_that_ran_is_lost_and_not_asked_for_although_the_rules_have_changed(tmp_path: Path) -> None:
    ran, path = list[str](), tmp_path / "data"

    async def strike(arguments: dict[str, object]) -> object:
        ran.append("strike")
        return "struck"

    def fails(number: int) -> bool:
        return bool(ran)

    plain = tool("strike", strike)
    async with open_world(asked_for(("c1", "strike")), tools=[plain], path=path, fails=fails) as world:
        try:
            await world.say(world.start(), "go")
            with anyio.move_on_after(2):
                await world.start().rest()
        except AgentVMError:
            pass
    assert ran == ["strike"]
    # Now a call of it would wait for an approval.
    strict = Tool(spec=plain.spec, run=plain.run, effect="destructive")
    async with open_world(ScriptedDriver(), tools=[strict], path=path) as world:
        await world.hear("turn_response")
        assert await open_waits(world) == []
        assert await results(world) == [("c1", "error-text", calls.LOST)]
        assert ran == ["strike"]


async def test_a_turn_that_cannot_be_woken_after_an_answer_is_woken_a_little_later(monkeypatch: pytest.MonkeyPatch) -> None:
    hammer, reads = Hammer(), list[str]()
    async with parked(hammer, ("c1", "hammer")) as (world, (wait,)):
        find = TenantStore.find_turn

        async def find_flaky(store: TenantStore, turn_id: Any) -> Any:
            reads.append(turn_id)
            if len(reads) in (2, 3):
                raise StoreFailed("the disk is busy")
            return await find(store, turn_id)

        monkeypatch.setattr(TenantStore, "find_turn", find_flaky)
        assert await answer(world, wait)
        await world.hear("turn_response")
        assert hammer.calls == [{"n": 1}]
        assert len(reads) == 4


@pytest.mark.parametrize("stopped", [False, True])
async def test_a_result_that_could_not_be_stored_comes_with_the_end_of_its_turn(stopped: bool) -> None:
    ran, refused = list[str](), list[int]()

    async def strike(arguments: dict[str, object]) -> object:
        ran.append("strike")
        return "struck"

    def fails(number: int) -> bool:
        if ran and not refused:
            refused.append(number)
            if stopped:
                agent.cancel(agent._running)
            return True
        return False

    async with open_world(asked_for(("c1", "strike")), tools=[tool("strike", strike)], fails=fails) as world:
        agent = world.start()
        await world.say(agent, "go")
        await world.hear("turn_response")
        assert len(refused) == 1
        assert await results(world) == [("c1", "text", "struck")]
        assert (await world.turns())[0].outcome in ("failed", "interrupted")


@pytest.mark.parametrize("refused", range(2, 5))
async def test_calls_whose_message_could_not_be_stored_have_no_results(refused: int) -> None:
    ran = list[str]()

    async def strike(arguments: dict[str, object]) -> object:
        ran.append("strike")
        return "struck"

    tools = [tool("strike", strike)]
    async with open_world(asked_for(("c1", "strike")), tools=tools, fails=lambda number: number == refused) as world:
        await world.say(world.start(), "go")
        await world.hear("turn_response")
        stored = [message.tool_call.id for message in await world.messages() if isinstance(message, ToolCallMessage)]
        assert [call_id for call_id, _, _ in await results(world)] == stored
        assert len(ran) <= len(stored)


async def test_a_turn_hears_of_a_refused_result_although_somebody_else_was_told_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ran, refused = list[str](), list[int]()
    fail = Journal._fail

    def fail_and_tell_another(journal: Journal, batch: Batch, errors: dict[SessionLog, AgentVMError]) -> None:
        fail(journal, batch, errors)
        for log in errors:
            # As one does who answers a wait of the turn in the same moment.
            log.failed.clear()

    async def strike(arguments: dict[str, object]) -> object:
        ran.append("strike")
        return "struck"

    def fails(number: int) -> bool:
        if ran and not refused:
            refused.append(number)
            return True
        return False

    monkeypatch.setattr(Journal, "_fail", fail_and_tell_another)
    async with open_world(asked_for(("c1", "strike")), tools=[tool("strike", strike)], fails=fails) as world:
        await world.say(world.start(), "go")
        await world.hear("turn_response")
        assert (ran, await results(world)) == (["strike"], [("c1", "text", "struck")])
        assert (await world.turns())[0].outcome == "failed"
