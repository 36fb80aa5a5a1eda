"""Parked turns when things go wrong: the process dies at any commit, answers race with everything else."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import anyio
import msgspec
import pytest
from tests.runtime.fixtures import World, open_world, tool, types
from tests.runtime.test_parking import Hammer, answer, asked_for, look, open_waits, parked, results

from agentvm.drivers.base import ToolSpec
from agentvm.drivers.scripted import ScriptedDriver
from agentvm.errors import AgentVMError, InvalidInput, NotFound, StoreFailed
from agentvm.events.base import Event, EventData, EventScope
from agentvm.events.lifecycle import Interrupted
from agentvm.events.state import ConversationEnd
from agentvm.model.ids import DEFAULT_TENANT, MessageId
from agentvm.model.limits import Limits
from agentvm.model.message import ToolCallMessage
from agentvm.model.policy import Approval, Condition, Policy, PolicyRule
from agentvm.model.tool_settings import ToolSettings
from agentvm.model.wait import ToolWait, WaitAnswer
from agentvm.runtime.history import keep_to
from agentvm.runtime.parking import ShortTimers, end_parked, end_stopped, watch_expiry
from agentvm.runtime.tools import Tool
from agentvm.runtime.waiting import answer_events
from agentvm.storage.base import SessionWrite

pytestmark = pytest.mark.anyio

COMMITS_MAX = 14


async def _until_ended(world: World) -> None:
    with anyio.fail_after(60):
        while (turns := await world.turns()) and turns[0].outcome is None:
            for wait in await open_waits(world):
                await answer(world, wait)
            await anyio.sleep(0.005)


@pytest.mark.parametrize("last", range(1, COMMITS_MAX))
async def test_a_server_that_dies_after_any_commit_runs_an_approved_call_at_most_once(tmp_path: Path, last: int) -> None:
    hammer, path = Hammer(), tmp_path / "data"
    calls = (("c1", "hammer"), ("c2", "look"), ("c3", "hammer"))
    tools = [hammer.tool, tool("look", look)]
    async with open_world(asked_for(*calls), tools=tools, path=path, fails=lambda number: number > last) as world:
        try:
            await world.say(world.start(), "go")
            with anyio.move_on_after(0.3):
                await world.hear("turn_parked")
            await world.start().rest()
            for wait in await open_waits(world):
                await answer(world, wait)
                await world.start().rest()
        except AgentVMError:
            pass
    async with open_world(ScriptedDriver(), tools=tools, path=path) as world:
        await _until_ended(world)

        count = Counter(call_id for call_id, _, _ in await results(world))
        turns = await world.turns()
        assert len(hammer.calls) <= 2  # One each.
        if turns and turns[0].outcome == "completed":
            asked = [message.tool_call.id for message in await world.messages() if isinstance(message, ToolCallMessage)]
            assert count == Counter(asked)


async def test_a_wait_that_cannot_be_ended_keeps_neither_the_server_nor_other_waits_busy() -> None:
    """Waits of a deleted session are due for ever: they are left alone until it is restored."""
    async with parked(Hammer(), ("c1", "hammer")) as (world, (wait,)):
        tried = list[str]()

        async def expire(tenant_id: str, due: ToolWait) -> bool:
            tried.append(due.wait_id)
            return False

        with anyio.move_on_after(0.05):
            await watch_expiry(world.store, lambda: wait.expires_at + 1, expire, ShortTimers())
        assert tried == [wait.wait_id]
        await world.runtime.stop_agent(world.start())
        await world.store.tenant(DEFAULT_TENANT).sessions((wait.container_id,)).delete(wait.session_id, 9)
        assert await world.store.due_waits.next_due() is None
        assert await world.store.due_waits.list_due(wait.expires_at, 10) == ()


async def test_an_asker_who_leaves_in_the_middle_of_an_answer_does_not_keep_the_turn_from_going_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hammer, asking = Hammer(), anyio.CancelScope()
    async with parked(hammer, ("c1", "hammer")) as (world, (wait,)):
        journal = world.runtime.journal
        tell = journal._broadcast

        def leave(events: Sequence[Event]) -> None:
            tell(events)
            asking.cancel()

        monkeypatch.setattr(journal, "_broadcast", leave)
        with asking:
            await answer(world, wait)
        await world.hear("turn_response")
        assert hammer.calls == [{"n": 1}]


async def test_an_interrupt_that_was_told_while_the_turn_was_parked_ends_it() -> None:
    async with open_world(asked_for(("c1", "hammer")), tools=[Hammer().tool]) as world:
        agent = world.start()
        await world.say(agent, "go")
        await world.hear("tool_waiting")
        running = agent._running
        await world.hear("turn_parked")
        await agent.rest()
        agent.cancel(running)
        await world.hear("turn_response")
        assert [turn.outcome for turn in await world.turns()] == ["interrupted"]
        assert await open_waits(world) == []


@pytest.mark.parametrize("answered", [False, True])
async def test_a_stop_that_was_told_while_the_turn_was_parked_counts_after_a_crash(tmp_path: Path, answered: bool) -> None:
    """The server dies between the commit of the stop and that of the turn's end, with or without an answer before."""
    hammer, path = Hammer(), tmp_path / "data"
    async with parked(hammer, ("c1", "hammer"), path=path) as (world, (wait,)):
        agent = world.start()
        agent.leave()
        world.runtime.roster.remove(agent)
        log = await world.runtime.journal.open(DEFAULT_TENANT, world.image.container_id, world.image.session_id)
        if answered:
            await world.runtime.journal.emit(log, answer_events(wait, WaitAnswer(decision="approve"), None, 5), agent.scope)
        told = Interrupted(agent_id=agent.agent_id, container_id=agent.container_id, turn_id=wait.turn_id)
        await world.runtime.journal.emit(log, (told,), agent.scope)
        assert list(log.open_turns) == [wait.turn_id]
        # An event of the session that is committed later does not let the journal forget the stop.
        other = ConversationEnd(reason="completed")
        await world.runtime.journal.emit(log, (other,), agent.scope)
    for _ in range(2):
        async with open_world(ScriptedDriver(), tools=[hammer.tool], path=path) as world:
            with anyio.fail_after(60):
                while not (turns := await world.turns()) or turns[0].outcome is None:
                    await anyio.lowlevel.checkpoint()
            assert turns[0].outcome == "interrupted"
            assert hammer.calls == []
            assert await open_waits(world) == []


async def test_a_stop_that_is_told_beside_an_answer_ends_the_turn_that_the_answer_has_woken() -> None:
    hammer = Hammer()
    async with parked(hammer, ("c1", "hammer"), ("c2", "hammer")) as (world, (first, _)):
        agent = world.start()
        await answer(world, first)
        await end_stopped(agent, first.turn_id)
        await world.hear("turn_response")
        assert [turn.outcome for turn in await world.turns()] == ["interrupted"]


async def test_a_change_of_the_history_that_is_refused_leaves_the_parked_turn_alone() -> None:
    async with parked(Hammer(), ("c1", "hammer")) as (world, _):
        with pytest.raises(NotFound):
            await world.start().rewrite(keep_to(MessageId("msg_none")))
        assert len(await open_waits(world)) == 1


async def test_a_parked_turn_goes_on_with_the_time_that_it_has_left() -> None:
    """Its time in the inbox and as a row does not count, its time at work does."""
    async with parked(Hammer(), ("c1", "hammer")) as (world, _):
        (left,) = await world.turns()
        agent = world.start()
        accepted = agent.resume(msgspec.structs.replace(left, active_ms=400), suspended=True)
        accepted.limit(1.0)
        assert accepted.cancelling.deadline == pytest.approx(accepted.active_since + 0.6)
        assert accepted.active_ms() >= 400
        agent.inbox.clear()


async def test_the_result_of_a_client_is_cut_like_that_of_a_tool() -> None:
    plain = tool("photo", look)
    photo = Tool(spec=plain.spec, run=plain.run, runtime="client", waits_for="client")
    limits = Limits(tool_output=1_000)
    async with open_world(asked_for(("c1", "photo")), tools=[photo], limits=limits) as world:
        await world.say(world.start(), "go")
        await world.hear("turn_parked")
        (wait,) = await open_waits(world)
        await answer(world, wait, "answer", result={"bytes": "x" * 100_000})
        await world.hear("turn_response")
        ((_, kind, text),) = await results(world)
        assert kind == "text"
        assert len(text) < 1_100


async def test_an_edited_input_must_fit_the_tool() -> None:
    hammer = Hammer()
    spec = ToolSpec(
        name="hammer",
        description="Strikes",
        input_schema={"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False},
    )
    strict = Tool(spec=spec, run=hammer.run, effect="destructive")
    async with open_world(asked_for(("c1", "hammer")), tools=[strict]) as world:
        await world.say(world.start(), "go")
        await world.hear("turn_parked")
        (wait,) = await open_waits(world)
        with pytest.raises(InvalidInput, match="input does not fit the tool: n: "):
            await answer(world, wait, "edit", input={"n": "two"})
        assert len(await open_waits(world)) == 1
        await answer(world, wait, "edit", input={"n": 2})
        await world.hear("turn_response")
        assert hammer.calls == [{"n": 2}]


async def test_an_answer_between_siblings_does_not_wake_the_turn_once_more() -> None:
    slow, done = anyio.Event(), Hammer()

    async def wait_for(arguments: dict[str, object]) -> object:
        await slow.wait()
        return "seen"

    calls = (("c1", "hammer"), ("c2", "look"), ("c3", "hammer"))
    async with open_world(asked_for(*calls), tools=[done.tool, tool("look", wait_for)]) as world:
        await world.say(world.start(), "go")
        await world.hear("tool_waiting", times=2)
        await answer(world, (await open_waits(world))[0])
        slow.set()
        await world.hear("turn_parked")
        await world.start().rest()
        assert len(done.calls) == 1
        assert types(world.hear_nowait()).count("turn_resumed") == 0


async def test_a_wait_whose_turn_has_ended_takes_no_answer() -> None:
    hammer = Hammer()
    async with parked(hammer, ("c1", "hammer")) as (world, (wait,)):
        (turn,) = await world.turns()
        ended = msgspec.structs.replace(turn, outcome="failed", ended_at=9)
        write = SessionWrite(
            tenant_id=DEFAULT_TENANT,
            container_id=turn.container_id,
            session_id=turn.session_id,
            now=9,
            turns=(ended,),
        )
        await world.store.commit([write])
        assert not await answer(world, wait)
        assert await open_waits(world) == []
        assert hammer.calls == []


async def test_a_parked_turn_that_is_ended_is_not_taken_up_first() -> None:
    async with parked(Hammer(), ("c1", "hammer")) as (world, _):
        heard = len(world.heard)
        second = await world.say(world.start(), "never mind")
        await world.hear("turn_response", turn_id=second)
        told = types(world.heard)[heard:]
        assert told[: told.index("turn_response")] == [
            "tool_answered", "tool_result", "tool_result_message", "tool_failed", "message_stop", "conversation_end",
        ]  # fmt: skip


async def test_an_approved_call_does_not_begin_once_its_turn_is_stopped() -> None:
    hammer = Hammer()
    async with parked(hammer, ("c1", "hammer")) as (world, (wait,)):
        agent = world.start()
        await agent.writer.emit(answer_events(wait, WaitAnswer(decision="approve"), None, 5), agent.scope)
        (left,) = await world.turns()
        agent.release(agent.resume(left, stopped=True, suspended=True))
        await world.hear("turn_response")
        assert hammer.calls == []


async def test_a_message_that_cannot_be_stored_leaves_the_parked_turn_alone() -> None:
    hammer, broken = Hammer(), list[bool]()
    async with open_world(asked_for(("c1", "hammer")), tools=[hammer.tool], fails=lambda number: bool(broken)) as world:
        await world.say(world.start(), "go")
        await world.hear("turn_parked")
        await world.start().rest()
        (wait,) = await open_waits(world)
        broken.append(True)
        with pytest.raises(StoreFailed):
            await answer(world, wait)
        with pytest.raises(StoreFailed):
            await world.say(world.start(), "never mind")
        broken.clear()
        assert await answer(world, wait)
        await world.hear("turn_response")
        assert hammer.calls == [{"n": 1}]


@pytest.mark.parametrize("approved", [False, True])
async def test_a_message_that_waits_behind_a_turn_supersedes_it_when_that_is_parked(approved: bool) -> None:
    """Two turns are never open beside each other: one that was answered meanwhile goes on first, any other ends."""
    slow, hammer = anyio.Event(), Hammer()

    async def wait_for(arguments: dict[str, object]) -> object:
        await slow.wait()
        return "seen"

    calls = (("c1", "hammer"), ("c2", "look"))
    async with open_world(asked_for(*calls), tools=[hammer.tool, tool("look", wait_for)]) as world:
        first = await world.say(world.start(), "go")
        await world.hear("tool_waiting")
        second = await world.say(world.start(), "and then")
        if approved:
            await answer(world, (await open_waits(world))[0])
        slow.set()
        await world.hear("turn_response", turn_id=second)
        ends = [event["context"]["turnId"] for event in world.heard if event["type"] == "turn_response"]
        assert ends == [first, second]
        assert [turn.outcome for turn in await world.turns()] == ["completed" if approved else "interrupted", "completed"]
        assert await open_waits(world) == []
        assert len(hammer.calls) == int(approved)


async def test_an_answer_that_came_after_the_end_of_its_turn_is_not_reported_as_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hammer = Hammer()
    async with parked(hammer, ("c1", "hammer")) as (world, (wait,)):
        agent = world.start()
        emit = agent.writer.emit

        async def emit_late(told: Sequence[EventData], scope: EventScope) -> None:
            monkeypatch.undo()
            await end_parked(agent)
            await emit(told, scope)

        monkeypatch.setattr(agent.writer, "emit", emit_late)
        assert not await answer(world, wait)
        assert [turn.outcome for turn in await world.turns()] == ["interrupted"]
        assert hammer.calls == []


async def test_an_edit_cannot_do_what_the_rules_deny_or_leave_to_others() -> None:
    hammer = Hammer()
    dear = {"/n": Condition(gt=100)}
    rules = (
        PolicyRule(do="deny", when={"/n": Condition(gt=1_000)}),
        PolicyRule(do="ask", when=dear, ask=Approval(audience="admins")),
        PolicyRule(do="ask"),
    )
    async with open_world(asked_for(("c1", "hammer")), tools=[hammer.tool]) as world:
        agent = world.start()
        ruled = replace(agent.ports.settings_of(None), tools=ToolSettings(policy=Policy(rules=rules)))
        agent.ports = replace(agent.ports, settings_of=lambda scope: ruled)
        await world.say(agent, "go")
        await world.hear("turn_parked")
        (wait,) = await open_waits(world)
        for number, why in ((2_000, "operator rule 1"), (200, "operator rule 2")):
            with pytest.raises(InvalidInput, match=why):
                await answer(world, wait, "edit", input={"n": number})
        await answer(world, wait, "edit", input={"n": 2})
        await world.hear("turn_response")
        assert hammer.calls == [{"n": 2}]


@pytest.mark.parametrize(
    ("rules", "made"), [((PolicyRule(tool="hammer", do="deny"),), False), ((PolicyRule(do="allow"),), True)]
)
async def test_an_approved_call_is_not_made_if_a_rule_denies_it_meanwhile(rules: tuple[PolicyRule, ...], made: bool) -> None:
    hammer = Hammer()
    async with parked(hammer, ("c1", "hammer")) as (world, (wait,)):
        agent = world.start()
        ruled = replace(agent.ports.settings_of(None), tools=ToolSettings(policy=Policy(rules=rules)))
        agent.ports = replace(agent.ports, settings_of=lambda scope: ruled)
        await answer(world, wait)
        await world.hear("turn_response")
        assert hammer.calls == ([{"n": 1}] if made else [])
        ((_, kind, text),) = await results(world)
        assert made or (kind, text) == ("execution-denied", "The call was denied: operator rule 1: hammer")
