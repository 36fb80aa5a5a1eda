from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from agentvm import AgentX, ScriptedDriver, ServerConfig, create_agentx, local_runtime
from agentvm.cli.session_start import SessionStart, choose_agent
from agentvm.config import MEMORY, SystemSettings
from agentvm.errors import InvalidInput, NotFound
from agentvm.model.image import ImageConfig

URI = "resource://agents/pirate"


@pytest.fixture
async def agentx(anyio_backend: str) -> AsyncIterator[AgentX]:
    source = local_runtime(ServerConfig(system=SystemSettings(data_dir=MEMORY)), drivers={"scripted": ScriptedDriver()})
    async with create_agentx(source) as opened:
        await opened.resources.register("agents", "pirate", {"systemPrompt": "You are a pirate."})
        yield opened


async def test_an_agent_goes_on_where_it_was_although_another_was_used_since(agentx: AgentX) -> None:
    pirate, usual = SessionStart(agent=URI), SessionStart()
    assert await pirate.last_session(agentx, "c1") is None
    first, _ = await pirate.new_session(agentx, "c1")
    await usual.new_session(agentx, "c1")
    last = await pirate.last_session(agentx, "c1")
    assert last is not None
    assert last.session_id == first.session_id


async def test_an_image_in_which_nothing_was_said_is_not_the_last_conversation(agentx: AgentX) -> None:
    spoken, _ = await SessionStart().new_session(agentx, "c1")
    async with aclosing((await spoken.resume()).stream("hello")) as events:
        assert [event.type async for event in events][-1] == "turn_response"
    await agentx.images.create(ImageConfig(name="Pirate"), container_id="c1")
    last = await SessionStart().last_session(agentx, "c1")
    assert last is not None
    assert last.session_id == spoken.session_id


@pytest.mark.parametrize("beginning", [SessionStart(model="scripted/other"), SessionStart(system_prompt="Be brief.")])
async def test_a_model_or_a_system_prompt_means_a_new_session(agentx: AgentX, beginning: SessionStart) -> None:
    await SessionStart().new_session(agentx, "c1")
    assert await beginning.last_session(agentx, "c1") is None


async def test_a_system_prompt_is_laid_over_an_agent(agentx: AgentX) -> None:
    session, _ = await SessionStart(agent=URI, system_prompt="Be brief.").new_session(agentx, "c1")
    image = await agentx.images.get(session.record.image_id)
    assert image is not None
    assert (image.definition_ref, image.system_prompt) == (URI, "Be brief.")


async def test_an_image_is_chosen_by_its_id_or_its_name(agentx: AgentX) -> None:
    image = await agentx.images.create(ImageConfig(name="Ada"), container_id="c1")
    for name in (image.image_id, "Ada"):
        chosen = await choose_agent(agentx, "c1", name, SessionStart())
        assert chosen == SessionStart(image_id=image.image_id)
    new, _ = await chosen.new_session(agentx, "c1")
    assert new.record.image_id == image.image_id
    last = await chosen.last_session(agentx, "c1")
    assert last is not None
    assert last.session_id == new.session_id
    assert chosen.with_model("scripted/other") == chosen


async def test_what_cannot_be_chosen_is_refused_with_the_remedy(agentx: AgentX) -> None:
    for _ in range(2):
        await agentx.images.create(ImageConfig(name="Ada"), container_id="c1")
    with pytest.raises(InvalidInput, match="2 images are named Ada"):
        await choose_agent(agentx, "c1", "Ada", SessionStart())
    with pytest.raises(InvalidInput, match="without --model"):
        await choose_agent(agentx, "c1", "Ada", SessionStart(model="m"))
    with pytest.raises(NotFound, match="resource://agents/NAME"):
        await choose_agent(agentx, "c1", "Bob", SessionStart())
    assert await choose_agent(agentx, "c1", URI, SessionStart(model="m")) == SessionStart(model="m", agent=URI)


async def test_what_the_server_warns_of_is_handed_on_and_not_warned_of_in_python(agentx: AgentX) -> None:
    tool: dict[str, object] = {
        "description": "Finds.",
        "inputSchema": {"type": "object"},
        "runtime": "builtin",
        "entry": "no_such_tool",
    }
    await agentx.resources.register("tools", "search", tool)
    await agentx.resources.register("agents", "finder", {"tools": ["resource://tools/search"]})
    _, warnings = await SessionStart(agent="resource://agents/finder").new_session(agentx, "c1")
    assert len(warnings) == 1
