"""Calls that another agent works on: one hidden session each, on the budget of the caller, over restarts and stops."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import anyio
import pytest
from tests.runtime.fixtures import World, open_world, tool
from tests.runtime.test_billing import Till
from tests.runtime.test_parking import Hammer, answer, open_waits, results

from agentvm.drivers.base import AssistantEntry, Prompt, UserEntry
from agentvm.drivers.scripted import Script, ScriptedDriver, ScriptStep, reply, tool_calls
from agentvm.model.definition import Definition, Rendered
from agentvm.model.ids import DEFAULT_TENANT, SessionId, TurnId
from agentvm.model.limits import Limits
from agentvm.model.policy import PolicyRule
from agentvm.model.session import Session
from agentvm.model.turn import Turn
from agentvm.runtime.tools import Tool

pytestmark = pytest.mark.anyio

WORKER, SECOND = "resource://agents/worker@1.0.0", "resource://agents/second@1.0.0"


def spec(name: str, entry: str = WORKER, **more: object) -> dict[str, object]:
    """The spec of a tool that calls an agent, as an image has it."""
    task = {"type": "object", "properties": {"task": {"type": "string"}}, "required": ["task"]}
    uri = f"resource://tools/{name}@1.0.0"
    return {"uri": uri, "name": name, "description": name, "runtime": "agent", "entry": entry, "inputSchema": task, **more}


def team(
    agents: Mapping[str, Definition] | None = None,
    tools: Sequence[dict[str, object]] = (spec("ask_worker"),),
    policy: Sequence[PolicyRule] = (),
) -> Definition:
    """An agent with tools that call others."""
    known = dict(agents or {WORKER: Definition(name="worker", system_prompt="worker", tools=())})
    names = tuple(str(one["name"]) for one in tools)
    rendered = Rendered(tools=tuple(tools), agents=known)
    return Definition(name="boss", system_prompt="boss", tools=names, rendered=rendered, policy=tuple(policy))


def steps(*answers: Sequence[ScriptStep]) -> Script:
    """Says these answers, one after the other, in each turn anew."""

    def script(prompt: Prompt) -> Iterable[ScriptStep]:
        said = [*prompt.conversation]
        asked = max(place for place, entry in enumerate(said) if isinstance(entry, UserEntry))
        return answers[sum(isinstance(entry, AssistantEntry) for entry in said[asked:])]

    return script


def by_prompt(**scripts: Script) -> ScriptedDriver:
    """A model that says what the agent with that system prompt says."""

    def script(prompt: Prompt) -> Iterable[ScriptStep]:
        return scripts[prompt.system or ""](prompt)

    return ScriptedDriver(script)


def delegate(*calls: str, name: str = "ask_worker") -> Script:
    """Calls the worker with these tasks, then reports."""
    wanted: list[tuple[str, str, dict[str, object]]] = [
        (f"c{number}", name, {"task": task}) for number, task in enumerate(calls, 1)
    ]
    return steps(tool_calls(*wanted), reply("reported"))


async def children(world: World, turn_id: str | None = None) -> tuple[Session, ...]:
    container = world.store.tenant(DEFAULT_TENANT).container(world.image.container_id)
    turn_id = turn_id or (await world.turns())[0].turn_id
    return await container.list_called(TurnId(turn_id))


async def turns_of(world: World, session_id: SessionId) -> tuple[Turn, ...]:
    container = world.store.tenant(DEFAULT_TENANT).container(world.image.container_id)
    return await container.log(session_id).list_turns()


async def until_ended(world: World, session_id: SessionId) -> Turn:
    with anyio.fail_after(60):
        while True:
            (turn,) = await turns_of(world, session_id)
            if turn.outcome is not None:
                return turn
            await anyio.sleep(0.005)


def hidden(driver: ScriptedDriver) -> list[str]:
    """What the worker was told last, in the order of its prompts."""
    return [str(getattr(prompt.conversation[-1], "content", "")) for prompt in driver.prompts if prompt.system == "worker"]


async def test_the_answer_of_the_sub_agent_is_the_result_of_the_call() -> None:
    driver = by_prompt(boss=delegate("add 2 and 3"), worker=steps(reply("It is 5.")))
    async with open_world(driver, definition=team()) as world:
        await world.say(world.start(), "go")
        await world.hear("turn_response")
        assert await results(world) == [("c1", "text", "It is 5.")]
        assert hidden(driver) == ["add 2 and 3"]
        (child,) = await children(world)
        assert (child.title, child.agent, child.image_id) == ("worker", WORKER, world.image.image_id)
        assert child.parent is not None
        assert child.parent.root_session == world.image.session_id
        (turn,) = await turns_of(world, child.session_id)
        assert (turn.outcome, turn.origin and turn.origin.kind) == ("completed", "agent")


async def test_the_session_of_a_sub_agent_is_in_no_list_and_can_be_read() -> None:
    driver = by_prompt(boss=delegate("x"), worker=steps(reply("hidden words")))
    async with open_world(driver, definition=team()) as world:
        await world.say(world.start(), "go")
        await world.hear("turn_response")
        container = world.store.tenant(DEFAULT_TENANT).container(world.image.container_id)
        (child,) = await children(world)
        assert [one.session_id for one in await container.list_sessions(world.image.image_id)] == [world.image.session_id]
        assert await container.get_session(child.session_id) == child
        assert await container.list_below(world.image.session_id) == (child,)


async def test_agents_call_agents_only_so_many_levels_deep() -> None:
    """An agent that calls itself: no build makes one, an archive by hand could."""
    again = spec("ask_worker")
    worker = Definition(name="worker", system_prompt="worker", tools=("ask_worker",), rendered=Rendered(tools=(again,)))
    driver = by_prompt(boss=delegate("deeper"), worker=delegate("deeper"))
    async with open_world(driver, definition=team({WORKER: worker}), limits=Limits(agent_depth=2)) as world:
        await world.say(world.start(), "go")
        await world.hear("turn_response")
        container = world.store.tenant(DEFAULT_TENANT).container(world.image.container_id)
        below = await container.list_below(world.image.session_id)
        assert len(below) == 2
        last = [message for message in await container.list_messages(below[-1].session_id) if message.role == "tool"]
        assert "agents call agents 2 levels deep at most" in str(last)


async def test_a_sub_agent_draws_on_the_budget_of_its_caller() -> None:
    look = steps(*(tool_calls((f"w{number}", "look", {"n": number})) for number in range(20)), reply("never"))

    async def seen(arguments: dict[str, object]) -> object:
        return "seen"

    worker = Definition(name="worker", system_prompt="worker", tools=("look",))
    driver = by_prompt(boss=delegate("x"), worker=look)
    tools = [tool("look", seen, repeatable=True)]
    async with open_world(driver, definition=team({WORKER: worker}), tools=tools, limits=Limits(steps=4)) as world:
        await world.say(world.start(), "go")
        heard = await world.hear("turn_response")
        # One call of the boss and three of the worker: none is left, for either.
        assert len(driver.prompts) == 4
        assert heard[-1]["data"]["outcome"] == "failed"
        ((_, kind, text),) = await results(world)
        assert (kind, "4 model calls" in text) == ("error-text", True)


@pytest.mark.parametrize("parks", [False, True])
async def test_the_price_of_a_turn_includes_its_sub_agents_at_any_depth(parks: bool) -> None:
    second = Definition(name="second", system_prompt="second", tools=("hammer",))
    again = Rendered(tools=(spec("ask_second", SECOND),), agents={SECOND: second})
    worker = Definition(name="worker", system_prompt="worker", tools=("ask_second",), rendered=again)
    strike = steps(tool_calls(("w1", "hammer", {"n": 1})), reply("struck")) if parks else steps(reply("done"))
    driver = by_prompt(boss=delegate("a", "b"), worker=delegate("deeper", name="ask_second"), second=strike)
    definition = team({WORKER: worker, SECOND: second}, policy=[PolicyRule(tool="hammer", do="ask")])
    async with open_world(driver, definition=definition, tools=[Hammer().tool], meter=Till()) as world:
        await world.say(world.start(), "go")
        for wait in range(2 if parks else 0):
            await world.hear("turn_parked", times=wait + 1)
            assert await answer(world, (await open_waits(world))[0])
        end = (await world.hear("turn_response"))[-1]["data"]
        ledger = world.store.accounts(DEFAULT_TENANT).ledger
        (billed,) = await ledger.usage(by=())
        own, _ = await ledger.turn_total(end["turnId"])
        assert billed.price == end["price"] > 0
        assert (await ledger.charges([end["turnId"]]))[end["turnId"]].price == billed.price
        assert (end["usage"]["outputTokens"], billed.calls) == (own.output_tokens, len(driver.prompts))


async def test_the_rules_of_the_caller_bind_its_sub_agents() -> None:
    hammer = Hammer()
    worker = Definition(name="worker", system_prompt="worker", tools=("hammer",))
    strike = steps(tool_calls(("w1", "hammer", {"n": 1})), reply("not allowed"))
    driver = by_prompt(boss=delegate("x"), worker=strike)
    rules = [PolicyRule(tool="hammer", do="deny")]
    async with open_world(driver, definition=team({WORKER: worker}, policy=rules), tools=[hammer.tool]) as world:
        await world.say(world.start(), "go")
        await world.hear("turn_response")
        assert hammer.calls == []
        assert await results(world) == [("c1", "text", "not allowed")]


async def test_text_of_strangers_taints_the_result_and_goes_down_with_the_task() -> None:
    async def fetch(arguments: dict[str, object]) -> object:
        return "a page"

    plain = tool("fetch", fetch)
    fetching = Tool(spec=plain.spec, run=plain.run, world="open", effect="read")
    worker = Definition(name="worker", system_prompt="worker", tools=("fetch",))
    first = steps(tool_calls(("w1", "fetch", {})), reply("read"))
    boss = steps(
        tool_calls(("c1", "ask_worker", {"task": "x"})), tool_calls(("c2", "ask_worker", {"task": "y"})), reply("reported")
    )
    async with open_world(by_prompt(boss=boss, worker=first), definition=team({WORKER: worker}), tools=[fetching]) as world:
        await world.say(world.start(), "go")
        await world.hear("turn_response")
        tainted = [message.tool_result.tainted for message in await world.messages() if message.role == "tool"]
        assert tainted == [True, True]
        container = world.store.tenant(DEFAULT_TENANT).container(world.image.container_id)
        told = [(await container.list_messages(child.session_id))[0] for child in await children(world)]
        assert [getattr(message, "tainted", None) for message in told] == [False, True]


STRIKE = steps(tool_calls(("w1", "hammer", {"n": 1})), reply("struck it"))
STRIKER = {WORKER: Definition(name="worker", system_prompt="worker", tools=("hammer",))}


async def test_a_wait_of_a_sub_agent_is_shown_at_the_root_and_answered_there() -> None:
    hammer = Hammer()
    driver = by_prompt(boss=delegate("x"), worker=STRIKE)
    async with open_world(driver, definition=team(STRIKER), tools=[hammer.tool]) as world:
        await world.say(world.start(), "go")
        heard = await world.hear("turn_parked")
        (child,) = await children(world)
        (told,) = [event for event in heard if event["type"] == "tool_waiting"]
        assert (told["context"]["sessionId"], told["data"]["sessionId"]) == (world.image.session_id, child.session_id)
        assert heard[-1]["data"]["waits"] == [told["data"]["waitId"]]
        waits = world.store.tenant(DEFAULT_TENANT).waits((world.image.container_id,))
        page = await waits.list_page(session_id=world.image.session_id, state="open", after=0, limit=10)
        assert [(wait.wait_id, wait.kind) for _, wait in page] == [(told["data"]["waitId"], "approval")]
        assert await answer(world, page[0][1])
        await world.hear("turn_response")
        assert hammer.calls == [{"n": 1}]
        assert await results(world) == [("c1", "text", "struck it")]
        assert [event["data"]["decision"] for event in world.heard if event["type"] == "tool_answered"] == ["approve"]


async def test_a_parked_caller_and_its_sub_agent_are_rows_and_survive_restarts(tmp_path: Path) -> None:
    hammer, path = Hammer(), tmp_path / "data"
    driver = by_prompt(boss=delegate("x"), worker=STRIKE)
    async with open_world(driver, definition=team(STRIKER), tools=[hammer.tool], path=path) as world:
        await world.say(world.start(), "go")
        await world.hear("turn_parked")
        await world.start().rest()
    for _ in range(2):
        async with open_world(driver, tools=[hammer.tool], path=path) as world:
            assert list(world.runtime.roster) == []
            assert await world.store.list_unfinished() == ()
    async with open_world(driver, tools=[hammer.tool], path=path) as world:
        (wait,) = await open_waits(world)
        assert await answer(world, wait)
        await world.hear("turn_response")
        assert await results(world) == [("c1", "text", "struck it")]
        assert len(await children(world)) == 1
        assert hammer.calls == [{"n": 1}]


async def test_a_caller_whose_sub_agent_ended_just_before_a_crash_goes_on_at_the_next_start(tmp_path: Path) -> None:
    """The end of the sub-agent is stored, and the process dies before its caller is told."""
    hammer, path = Hammer(), tmp_path / "data"
    driver = by_prompt(boss=delegate("x"), worker=STRIKE)
    async with open_world(driver, definition=team(STRIKER), tools=[hammer.tool], path=path) as world:
        world.start().ports.sub_agents.note_end = lambda agent, accepted: None  # type: ignore[method-assign]
        await world.say(world.start(), "go")
        await world.hear("turn_parked")
        (wait,) = await open_waits(world)
        assert await answer(world, wait)
        (child,) = await children(world)
        await until_ended(world, child.session_id)
        assert (await world.turns())[0].outcome is None
    async with open_world(driver, tools=[hammer.tool], path=path) as world:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(world.runtime.housekeep)
            await world.hear("turn_response")
            tasks.cancel_scope.cancel()
        assert await results(world) == [("c1", "text", "struck it")]


async def test_a_stopped_caller_stops_its_sub_agents_at_once() -> None:
    began, hammer = anyio.Event(), Hammer()

    async def hang(arguments: dict[str, object]) -> object:
        began.set()
        await anyio.sleep_forever()
        return "never"

    worker = {WORKER: Definition(name="worker", system_prompt="worker", tools=("hang",))}
    driver = by_prompt(boss=delegate("x"), worker=steps(tool_calls(("w1", "hang", {})), reply("never")))
    async with open_world(driver, definition=team(worker), tools=[tool("hang", hang, 60.0), hammer.tool]) as world:
        agent = world.start()
        await world.say(agent, "go")
        with anyio.fail_after(60):
            await began.wait()
        agent.cancel(await agent.interrupt())
        heard = await world.hear("turn_response")
        assert heard[-1]["data"]["outcome"] == "interrupted"
        (child,) = await children(world)
        assert (await until_ended(world, child.session_id)).outcome == "interrupted"


@pytest.mark.parametrize("how", ["message", "rewind"])
async def test_a_parked_sub_agent_ends_with_its_caller(how: str) -> None:
    hammer = Hammer()
    driver = by_prompt(boss=delegate("x"), worker=STRIKE)
    async with open_world(driver, definition=team(STRIKER), tools=[hammer.tool]) as world:
        agent = world.start()
        await world.say(agent, "go")
        await world.hear("turn_parked")
        (child,) = await children(world)
        if how == "message":
            await world.say(agent, "never mind")
        else:
            await agent.interrupt()
        assert (await until_ended(world, child.session_id)).outcome == "interrupted"
        await world.hear("turn_response")
        waits = [wait for wait in await open_waits(world) if wait.session_id == child.session_id]
        assert waits == []
        assert hammer.calls == []


async def test_a_denied_or_expired_call_stops_its_sub_agent() -> None:
    hammer = Hammer()
    driver = by_prompt(boss=delegate("x"), worker=STRIKE)
    async with open_world(driver, definition=team(STRIKER), tools=[hammer.tool]) as world:
        await world.say(world.start(), "go")
        await world.hear("turn_parked")
        (child,) = await children(world)
        waits = world.store.tenant(DEFAULT_TENANT).waits((world.image.container_id,))
        turn_id = (await world.turns())[0].turn_id
        (wait,) = await waits.list_turn(world.image.session_id, turn_id)
        assert wait.kind == "child"
        assert await world.runtime.expire_wait(DEFAULT_TENANT, wait)
        await world.hear("turn_response")
        assert (await until_ended(world, child.session_id)).outcome == "interrupted"
        assert [kind for _, kind, _ in await results(world)] == ["execution-denied"]


async def test_the_sub_agents_of_a_deleted_session_go_with_it() -> None:
    driver = by_prompt(boss=delegate("x"), worker=steps(reply("done")))
    async with open_world(driver, definition=team()) as world:
        await world.say(world.start(), "go")
        await world.hear("turn_response")
        (child,) = await children(world)
        sessions = world.store.tenant(DEFAULT_TENANT).sessions((world.image.container_id,))
        container = world.store.tenant(DEFAULT_TENANT).container(world.image.container_id)
        await sessions.delete(world.image.session_id, 5_000)
        assert await container.get_session(child.session_id) is None
        await sessions.restore(world.image.session_id, 6_000, deleted_after=0)
        assert await container.get_session(child.session_id) is not None
        await sessions.delete(world.image.session_id, 7_000)
        await world.store.purge_sessions(8_000)
        assert await container.list_messages(child.session_id) == ()


async def test_a_failure_of_the_sub_agent_is_a_result() -> None:
    worker = {WORKER: Definition(name="worker", system_prompt="worker", tools=(), model="nobody/none")}
    async with open_world(by_prompt(boss=delegate("x")), definition=team(worker)) as world:
        await world.say(world.start(), "go")
        await world.hear("turn_response")
        ((_, kind, text),) = await results(world)
        assert (kind, text.startswith("The agent failed: ")) == ("error-text", True)
