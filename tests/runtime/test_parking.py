"""Turns that wait for somebody: who is asked, what an answer does, and that waiting costs nothing."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path

import anyio
import pytest
from tests.runtime.fixtures import World, open_world, tool, types

from agentvm.drivers.scripted import ScriptedDriver, in_turn, reply, tool_calls
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.message import ToolResultMessage
from agentvm.model.wait import ToolWait, WaitAnswer, WaitDecision
from agentvm.runtime.tools import Tool
from agentvm.runtime.waiting import answer_events

pytestmark = pytest.mark.anyio


@dataclass
class Hammer:
    """A tool whose author wants every call approved; it knows how often it was called, and with what."""

    calls: list[dict[str, object]] = field(default_factory=list)

    async def run(self, arguments: dict[str, object]) -> object:
        self.calls.append(arguments)
        return "struck"

    @property
    def tool(self) -> Tool:
        plain = tool("hammer", self.run)
        return Tool(spec=plain.spec, run=plain.run, effect="destructive")


async def look(arguments: dict[str, object]) -> object:
    return "seen"


def asked_for(*calls: tuple[str, str]) -> ScriptedDriver:
    """A model that asks for these calls, then says so."""
    wanted: list[tuple[str, str, dict[str, object]]] = [(call_id, name, {"n": 1}) for call_id, name in calls]
    return ScriptedDriver(in_turn(tool_calls(*wanted), reply("done")))


async def open_waits(world: World) -> list[ToolWait]:
    waits = world.store.tenant(DEFAULT_TENANT).waits((world.image.container_id,))
    return [wait for _, wait in await waits.list_page(session_id=None, state="open", after=0, limit=100)]


async def answer(world: World, wait: ToolWait, decision: WaitDecision = "approve", **more: object) -> bool:
    return await world.runtime.answer_wait(DEFAULT_TENANT, wait, WaitAnswer(decision=decision, **more), None)  # type: ignore[arg-type]


async def results(world: World) -> list[tuple[str, str, str]]:
    return [
        (message.tool_call_id, message.tool_result.output.type, message.tool_result.output.text)
        for message in await world.messages()
        if isinstance(message, ToolResultMessage)
    ]


@asynccontextmanager
async def parked(
    hammer: Hammer, *calls: tuple[str, str], path: Path | None = None
) -> AsyncIterator[tuple[World, list[ToolWait]]]:
    """A world with a parked turn, and its open waits."""
    tools = [hammer.tool, tool("look", look)]
    async with open_world(asked_for(*calls), tools=tools, path=path) as world:
        await world.say(world.start(), "go")
        await world.hear("turn_parked")
        await world.start().rest()
        yield world, await open_waits(world)


async def test_a_parked_turn_is_rows_and_nothing_else() -> None:
    async with parked(Hammer(), ("c1", "hammer")) as (world, (wait,)):
        agent = world.start()
        assert agent.resting
        assert not agent.busy
        assert world.runtime.journal.waiting == 0
        (turn,) = await world.turns()
        assert turn.parked_at is not None
        assert turn.outcome is None
        assert await world.store.list_unfinished() == ()
        assert (wait.tool, wait.kind, wait.input, wait.decisions) == (
            "hammer",
            "approval",
            {"n": 1},
            ("approve", "edit", "deny"),
        )


async def test_people_are_told_what_waits_and_why() -> None:
    async with parked(Hammer(), ("c1", "hammer")) as (world, (wait,)):
        (told,) = [event["data"] for event in world.heard if event["type"] == "tool_waiting"]
        assert told["waitId"] == wait.wait_id
        assert told["fingerprint"] == wait.fingerprint
        assert told["why"] == "default rule 1: destructive"
        # The user interface of 1.x unlocks with the end of the conversation.
        assert types(world.heard)[-3:] == ["tool_waiting", "conversation_end", "turn_parked"]


async def test_an_approved_call_runs_once_and_the_turn_goes_on_to_its_end() -> None:
    hammer = Hammer()
    async with parked(hammer, ("c1", "hammer")) as (world, (wait,)):
        assert hammer.calls == []
        assert await answer(world, wait)
        await world.hear("turn_response")
        assert hammer.calls == [{"n": 1}]
        assert await results(world) == [("c1", "text", "struck")]
        assert (await world.turns())[0].outcome == "completed"
        heard = types(world.heard)
        assert heard[heard.index("turn_parked") + 1 :][:3] == ["tool_answered", "turn_resumed", "tool_started"]


async def test_the_first_answer_counts_and_a_second_one_changes_nothing() -> None:
    hammer = Hammer()
    async with parked(hammer, ("c1", "hammer")) as (world, (wait,)):
        assert await answer(world, wait, "deny", reason="too loud")
        assert not await answer(world, wait)
        await world.hear("turn_response")
        assert hammer.calls == []
        assert await results(world) == [("c1", "execution-denied", "The call was denied: too loud")]


async def test_an_edited_call_runs_with_the_new_input_and_the_model_is_told() -> None:
    hammer = Hammer()
    async with parked(hammer, ("c1", "hammer")) as (world, (wait,)):
        await answer(world, wait, "edit", input={"n": 2})
        await world.hear("turn_response")
        assert hammer.calls == [{"n": 2}]
        ((_, _, told),) = await results(world)
        assert "A person changed the input" in told


async def test_siblings_run_at_once_while_a_call_waits() -> None:
    hammer = Hammer()
    async with parked(hammer, ("c1", "hammer"), ("c2", "look")) as (world, _):
        assert await results(world) == [("c2", "text", "seen")]


@pytest.mark.parametrize("order", list(permutations(range(3))))
async def test_answers_may_come_in_every_order(order: tuple[int, ...]) -> None:
    hammer = Hammer()
    async with parked(hammer, ("c1", "hammer"), ("c2", "hammer"), ("c3", "hammer")) as (world, waits):
        decisions: list[WaitDecision] = ["approve", "deny", "approve"]
        for count, number in enumerate(order, 1):
            assert await answer(world, waits[number], decisions[number])
            await world.hear("tool_answered", times=count)
        await world.hear("turn_response")
        assert len(hammer.calls) == 2
        assert {(call_id, kind) for call_id, kind, _ in await results(world)} == {
            ("c1", "text"), ("c2", "execution-denied"), ("c3", "text"),
        }  # fmt: skip


async def test_an_answer_survives_restarts_and_so_does_the_question(tmp_path: Path) -> None:
    hammer, path = Hammer(), tmp_path / "data"
    async with parked(hammer, ("c1", "hammer"), path=path):
        pass
    for _ in range(2):
        async with open_world(ScriptedDriver(), tools=[hammer.tool], path=path) as world:
            assert len(await open_waits(world)) == 1
            assert list(world.runtime.roster) == []
    async with open_world(ScriptedDriver(), tools=[hammer.tool], path=path) as world:
        (wait,) = await open_waits(world)
        await answer(world, wait)
        await world.hear("turn_response")
        assert hammer.calls == [{"n": 1}]


async def test_an_answer_that_was_stored_before_a_crash_is_carried_out_after_it(tmp_path: Path) -> None:
    """The server dies right after the commit of the answer: the row says that the turn is to go on."""
    hammer, path = Hammer(), tmp_path / "data"
    async with parked(hammer, ("c1", "hammer"), path=path) as (world, (wait,)):
        agent = world.start()
        agent.leave()
        world.runtime.roster.remove(agent)
        log = await world.runtime.journal.open(DEFAULT_TENANT, world.image.container_id, world.image.session_id)
        events = answer_events(wait, WaitAnswer(decision="approve"), None, 5)
        await world.runtime.journal.emit(log, events, agent.scope)
    async with open_world(ScriptedDriver(), tools=[hammer.tool], path=path) as world:
        with anyio.fail_after(60):
            while not (turns := await world.turns()) or turns[0].outcome is None:
                await anyio.lowlevel.checkpoint()
        assert hammer.calls == [{"n": 1}]
        assert turns[0].outcome == "completed"


async def test_a_new_message_ends_what_waits_and_every_call_has_a_result() -> None:
    hammer = Hammer()
    async with parked(hammer, ("c1", "hammer")) as (world, _):
        second = await world.say(world.start(), "never mind")
        await world.hear("turn_response", turn_id=second)
        assert [turn.outcome for turn in await world.turns()] == ["interrupted", "completed"]
        assert hammer.calls == []
        assert [kind for _, kind, _ in await results(world)] == ["execution-denied"]
        assert await open_waits(world) == []


async def test_a_wait_that_nobody_answers_expires_and_is_a_denial() -> None:
    hammer = Hammer()
    async with parked(hammer, ("c1", "hammer")) as (world, (wait,)):
        assert await world.store.due_waits.next_due() == wait.expires_at
        assert await world.store.due_waits.list_due(wait.expires_at - 1, 10) == ()
        ((tenant_id, due),) = await world.store.due_waits.list_due(wait.expires_at, 10)
        await world.runtime.expire_wait(tenant_id, due)
        await world.hear("turn_response")
        assert hammer.calls == []
        assert [text for _, _, text in await results(world)] == ["Nobody answered in time, so the call was not made."]


async def test_an_interrupt_ends_what_waits() -> None:
    hammer = Hammer()
    async with parked(hammer, ("c1", "hammer")) as (world, _):
        agent = world.start()
        agent.cancel(await agent.interrupt())
        await world.hear("turn_response")
        assert [turn.outcome for turn in await world.turns()] == ["interrupted"]
        assert await open_waits(world) == []
        assert hammer.calls == []
