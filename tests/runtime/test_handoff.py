"""Conversations that are handed over: who answers next, over restarts, rewinds and forks."""

from pathlib import Path

import pytest
from tests.runtime.fixtures import World, open_world, types
from tests.runtime.test_sub_agents import SECOND, WORKER, by_prompt, steps

from agentvm.drivers.scripted import ScriptedDriver, reply, tool_calls
from agentvm.model.definition import Definition, Rendered
from agentvm.model.ids import DEFAULT_TENANT, MessageId
from agentvm.model.message import AssistantMessage
from agentvm.runtime.acting_agent import acting_image
from agentvm.runtime.handoff import transfer_tools
from agentvm.runtime.history import take_from

pytestmark = pytest.mark.anyio

WORKING = Definition(
    name="worker", description="Works.", system_prompt="worker", tools=(), rendered=Rendered(handoffs=(SECOND,))
)
DESK = Definition(
    name="boss",
    system_prompt="boss",
    tools=(),
    rendered=Rendered(
        handoffs=(WORKER,), agents={WORKER: WORKING, SECOND: Definition(name="second", system_prompt="second", tools=())}
    ),
)


def desk(*, back: bool = False) -> ScriptedDriver:
    """The boss hands over at once; the worker answers, or hands back."""
    returned = steps(reply("never"), tool_calls(("c2", "transfer_to_boss", {})))
    return by_prompt(
        boss=steps(tool_calls(("c1", "transfer_to_worker", {})), reply("never"), reply("boss again")),
        worker=returned if back else steps(reply("worker here"), reply("worker here")),
    )


async def said(world: World) -> list[str]:
    return [message.text for message in await world.messages() if isinstance(message, AssistantMessage) and message.text]


async def test_the_other_agent_goes_on_in_the_same_turn_and_answers_the_next(tmp_path: Path) -> None:
    driver, path = desk(), tmp_path / "data"
    async with open_world(driver, definition=DESK, path=path) as world:
        await world.say(world.start(), "hello")
        heard = await world.hear("turn_response")
        (switched,) = [event["data"] for event in heard if event["type"] == "agent_switched"]
        assert (switched["agent"], switched["name"]) == (WORKER, "worker")
        assert [prompt.system for prompt in driver.prompts] == ["boss", "worker"]
        assert [[tool.name for tool in prompt.tools] for prompt in driver.prompts] == [
            ["transfer_to_worker"],
            ["transfer_to_second", "transfer_to_boss"],
        ]
        await world.say(world.start(), "and now?")
        await world.hear("turn_response", times=2)
        assert [prompt.system for prompt in driver.prompts] == ["boss", "worker", "worker"]
        assert types(world.heard).count("agent_switched") == 1
    async with open_world(driver, path=path) as world:
        image, uri = await acting_image(world.start(), None)
        assert (image.definition.name, uri) == ("worker", WORKER)


async def test_a_handoff_that_is_rewound_is_taken_back() -> None:
    async with open_world(desk(), definition=DESK) as world:
        agent = world.start()
        await world.say(agent, "hello")
        await world.hear("turn_response")
        first = (await world.messages())[0]
        log = world.store.tenant(DEFAULT_TENANT).container(world.image.container_id).log(world.image.session_id)
        assert await log.find_agent() == WORKER
        await agent.rest()
        await agent.rewrite(take_from(MessageId(first.id)))
        assert await log.find_agent() is None


async def test_an_agent_can_hand_back_to_the_image() -> None:
    async with open_world(desk(back=True), definition=DESK) as world:
        await world.say(world.start(), "hello")
        heard = await world.hear("turn_response")
        assert [event["data"]["agent"] for event in heard if event["type"] == "agent_switched"] == [WORKER, ""]
        assert (await said(world))[-1] == "boss again"


async def test_an_image_without_handoffs_has_no_such_tool() -> None:
    async with open_world(ScriptedDriver()) as world:
        assert transfer_tools(world.image) == ()
