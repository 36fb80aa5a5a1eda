"""Runs `blueprint.feature`: definitions, images, sessions and agents, through the application's API."""

from dataclasses import dataclass, field

import msgspec
import pytest
from pytest_bdd import given, parsers, scenarios, then, when
from tests.behaviour.world import World, said_by_users

from agentvm import AgentVMError, AgentX, Definition, ImageConfig
from agentvm.client.handles import AgentHandle, SessionHandle
from agentvm.model.message import UserMessage
from agentvm.protocol.records import DefinitionRecord, ImageRecord

scenarios("blueprint.feature")


@dataclass
class Made:
    """What a scenario built, by its name."""

    images: dict[str, ImageRecord] = field(default_factory=dict)
    sessions: list[SessionHandle] = field(default_factory=list)
    agents: list[AgentHandle] = field(default_factory=list)


@pytest.fixture
def made() -> Made:
    return Made()


def app(world: World) -> AgentX:
    assert world.application is not None
    return world.application


async def talk(agent: AgentHandle, text: str) -> None:
    async for _ in agent.stream(text):
        pass


# --- definitions


@given(parsers.re(r'the definition "(?P<name>.*)" with the prompt "(?P<prompt>.*)"'))
def _(world: World, name: str, prompt: str) -> None:
    world.definitions = [Definition(name=name, system_prompt=prompt)]


@given("an application")
def _(world: World) -> None:
    world.open_application()


@then(parsers.re(r'the application lists the definitions "(?P<names>.*)"'))
def _(world: World, names: str) -> None:
    registered = [one.name for one in world.run(app(world).definitions.list) if not isinstance(one, DefinitionRecord)]
    assert registered == names.split(", ")


@then(parsers.re(r'the application finds the definition "(?P<name>.*)" with the prompt "(?P<prompt>.*)"'))
def _(world: World, name: str, prompt: str) -> None:
    found = world.run(app(world).definitions.get, name)
    assert found is not None
    assert found.system_prompt == prompt


@then(parsers.re(r'the application finds no definition "(?P<name>.*)"'))
def _(world: World, name: str) -> None:
    assert world.run(app(world).definitions.get, name) is None


@when(parsers.re(r'the application registers "(?P<name>.*)" with the prompt "(?P<prompt>.*)"'))
@then(parsers.re(r'registering "(?P<name>.*)" with the prompt "(?P<prompt>.*)" again is allowed'))
def _(world: World, name: str, prompt: str) -> None:
    world.run(app(world).definitions.register, Definition(name=name, system_prompt=prompt))


@then(parsers.re(r'registering "(?P<name>.*)" with the prompt "(?P<prompt>.*)" is refused as "(?P<code>.*)"'))
def _(world: World, name: str, prompt: str, code: str) -> None:
    with pytest.raises(AgentVMError) as refused:
        world.run(app(world).definitions.register, Definition(name=name, system_prompt=prompt))
    assert refused.value.code == code


@when(parsers.re(r'the server is restarted with the definition "(?P<name>.*)" with the prompt "(?P<prompt>.*)"'))
def _(world: World, name: str, prompt: str) -> None:
    world.definitions = [Definition(name=name, system_prompt=prompt)]
    world.restart()


# --- images


@given(parsers.re(r'the application built "(?P<definition>.*)" as "(?P<image>[^"]*)"'))
@when(parsers.re(r'the application builds "(?P<definition>.*)" as "(?P<image>[^"]*)"'))
def _(world: World, made: Made, definition: str, image: str) -> None:
    made.images[image] = world.run(app(world).images.build, definition, ImageConfig(name=image), container_id="c1")


@when(parsers.re(r'the application builds "(?P<definition>.*)" as "(?P<image>[^"]*)" with the prompt "(?P<prompt>.*)"'))
def _(world: World, made: Made, definition: str, image: str, prompt: str) -> None:
    config = ImageConfig(name=image, system_prompt=prompt)
    made.images[image] = world.run(app(world).images.build, definition, config, container_id="c1")


@given(parsers.re(r'the application built "(?P<definition>.*)" as "(?P<image>[^"]*)" and talked to it'))
def _(world: World, made: Made, definition: str, image: str) -> None:
    made.images[image] = world.run(app(world).images.build, definition, ImageConfig(name=image), container_id="c1")
    agent = world.run(app(world).images.run, made.images[image].image_id)
    world.run(talk, agent, "one")


@then(parsers.re(r'the image "(?P<image>.*)" remembers that it was built from "(?P<definition>.*)"'))
def _(world: World, made: Made, image: str, definition: str) -> None:
    found = world.run(app(world).images.get, made.images[image].image_id)
    assert found == made.images[image]
    assert found.definition_name == definition
    assert found.digest.startswith("sha256:")


@then(parsers.re(r'an agent of "(?P<image>.*)" is told "(?P<prompt>.*)"'))
def _(world: World, made: Made, image: str, prompt: str) -> None:
    agent = world.run(app(world).images.run, made.images[image].image_id)
    world.run(talk, agent, "two")
    assert world.prompts[-1].system == prompt


@then(parsers.re(r'"(?P<one>.*)" and "(?P<other>.*)" have the same digest'))
def _(made: Made, one: str, other: str) -> None:
    assert made.images[one].image_id != made.images[other].image_id
    assert made.images[one].digest == made.images[other].digest


@then("what was said before is part of the conversation")
def _(world: World) -> None:
    assert said_by_users(world.prompts[-1]) == ["one", "two"]


# --- sessions


@when(parsers.re(r'the application opens two sessions of "(?P<image>.*)" and says "one" in the first and "two" in the second'))
def _(world: World, made: Made, image: str) -> None:
    for text in ("one", "two"):
        session = world.run(app(world).sessions.create, made.images[image].image_id, text)
        made.sessions.append(session)
        made.agents.append(world.run(session.resume))
        world.run(talk, made.agents[-1], text)


@then('the first session holds "one" and the second "two"')
def _(world: World, made: Made) -> None:
    for session, text in zip(made.sessions, ("one", "two"), strict=True):
        messages = world.run(session.messages)
        assert [message.content for message in messages if isinstance(message, UserMessage)] == [text]


@then(parsers.re(r'both were told "(?P<prompt>.*)"'))
def _(world: World, prompt: str) -> None:
    assert [asked.system for asked in world.prompts] == [prompt, prompt]
    assert [said_by_users(asked) for asked in world.prompts] == [["one"], ["two"]]


@then("two agents run, one for each")
def _(world: World, made: Made) -> None:
    running = world.run(app(world).agents.list, "c1")
    assert {agent.session_id for agent in running} == {session.session_id for session in made.sessions}
    assert len({agent.agent_id for agent in running}) == 2


@when(parsers.re(r'the application opens a session of "(?P<image>.*)"'))
def _(world: World, made: Made, image: str) -> None:
    made.sessions.append(world.run(app(world).sessions.create, made.images[image].image_id))


@then("the session has no title and no status")
def _(made: Made) -> None:
    record = msgspec.to_builtins(made.sessions[0].record)
    assert record.keys() == {"sessionId", "imageId", "containerId", "title", "createdAt", "updatedAt"}
    assert record["title"] is None


@when(parsers.re(r'the application calls it "(?P<title>.*)"'))
def _(world: World, made: Made, title: str) -> None:
    world.run(made.sessions[0].set_title, title)


@then(parsers.re(r'the session is found under "(?P<title>.*)"'))
def _(world: World, made: Made, title: str) -> None:
    found = world.run(app(world).sessions.get, made.sessions[0].session_id)
    assert found is not None
    assert found.record.title == title
    assert found.record.updated_at >= found.record.created_at


@given(parsers.re(r'the application opened a session of "(?P<image>.*)" and said "(?P<text>.*)"'))
def _(world: World, made: Made, image: str, text: str) -> None:
    made.sessions.append(world.run(app(world).sessions.create, made.images[image].image_id))
    made.agents.append(world.run(made.sessions[0].resume))
    world.run(talk, made.agents[0], text)


@when(parsers.re(r'the application resumes the session and says "(?P<text>.*)"'))
def _(world: World, made: Made, text: str) -> None:
    session = world.run(app(world).sessions.get, made.sessions[0].session_id)
    assert session is not None
    made.agents.append(world.run(session.resume))
    world.run(talk, made.agents[-1], text)


@then("it was another agent")
def _(made: Made) -> None:
    assert made.agents[0].agent_id != made.agents[1].agent_id
    assert made.agents[0].session_id == made.agents[1].session_id
