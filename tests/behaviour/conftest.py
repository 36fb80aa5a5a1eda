"""The fixtures and the common steps of the scenarios."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from pytest_bdd import given, parsers, then, when
from tests.behaviour.world import World
from tests.support.replay import ADDITIVE


def pytest_bdd_apply_tag(tag: str, function: Callable[..., Any]) -> bool | None:
    """Tags are the requirements a scenario shows; they select nothing, so they become no markers."""
    return True if tag.startswith("R") and tag[1:].isdigit() else None


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with start_blocking_portal() as portal:
        world = World(portal, tmp_path)
        yield world
        world.close()


# --- a server and its clients


@given("a running server")
def _(world: World) -> None:
    world.start()


@given(parsers.re(r"a client (?P<name>\w+)"))
def _(world: World, name: str) -> None:
    world.connect(name)


@when("the server is restarted")
def _(world: World) -> None:
    world.restart()


# --- containers and images


@when(parsers.re(r'(?P<name>\w+) creates the container "(?P<container>.*)"'))
def _(world: World, name: str, container: str) -> None:
    assert world.request(name, "container_create_request", containerId=container)["containerId"] == container


@given(parsers.re(r'(?P<name>\w+) has an image in "(?P<container>.*)"'))
def _(world: World, name: str, container: str) -> None:
    world.images[name] = world.request(name, "image_create_request", containerId=container, config={})["record"]


@when(parsers.re(r'(?P<name>\w+) creates the image "(?P<image>.*)" in "(?P<container>.*)" with the prompt "(?P<prompt>.*)"'))
def _(world: World, name: str, image: str, container: str, prompt: str) -> None:
    config = {"name": image, "systemPrompt": prompt}
    world.images[name] = world.request(name, "image_create_request", containerId=container, config=config)["record"]
    assert world.images[name]["name"] == image


@when(parsers.re(r"(?P<name>\w+) runs the image"))
def _(world: World, name: str) -> None:
    world.request(name, "image_run_request", imageId=world.images[name]["imageId"])


@when(parsers.re(r"(?P<name>\w+) stops the image"))
def _(world: World, name: str) -> None:
    world.request(name, "image_stop_request", imageId=world.images[name]["imageId"])


@when(parsers.re(r"(?P<name>\w+) runs an image that does not exist"))
def _(world: World, name: str) -> None:
    world.request(name, "image_run_request", imageId="img_nope")


@then(parsers.re(r"there (is|are) (?P<count>\d+) containers?"), converters={"count": int})
def _(world: World, count: int) -> None:
    assert len(world.request("alice", "container_list_request")["containerIds"]) == count


@then("the image is online")
def _(world: World) -> None:
    record = world.record("alice")
    assert record["online"] is True
    world.agents.append(record["agentId"])


@then("the image is offline")
def _(world: World) -> None:
    assert world.record("alice")["online"] is False


@then("the image is online with another agent")
def _(world: World) -> None:
    record = world.record("alice")
    assert record["online"] is True
    assert record["agentId"] not in world.agents


# --- talking


@when(parsers.re(r'(?P<name>\w+) sends "(?P<text>.*)"'))
def _(world: World, name: str, text: str) -> None:
    end = world.run(world.clients[name].say, world.images[name]["imageId"], text)
    if not world.agents:
        world.agents.append(end["context"]["agentId"])


@when(parsers.re(r"(?P<name>\w+) starts a slow answer"))
def _(world: World, name: str) -> None:
    world.request(name, "message_send_request", imageId=world.images[name]["imageId"], content="slow")
    world.run(world.clients[name].wait, "text_delta", 2)


@when(parsers.re(r"(?P<name>\w+) interrupts it"))
def _(world: World, name: str) -> None:
    world.request(name, "agent_interrupt_request", imageId=world.images[name]["imageId"])


@then(parsers.re(r'(?P<name>\w+) hears "(?P<text>.*)" in (?P<count>\d+) pieces?'), converters={"count": int})
def _(world: World, name: str, text: str, count: int) -> None:
    pieces = [event["data"]["text"] for event in world.clients[name].events if event["type"] == "text_delta"]
    assert "".join(pieces) == text
    assert len(pieces) == count


@then(parsers.re(r"(?P<name>\w+) heard (?P<kind>[a-z]+_[a-z_]+) (?P<count>\d+) times?"), converters={"count": int})
def _(world: World, name: str, kind: str, count: int) -> None:
    assert world.clients[name].types.count(kind) == count


@then(parsers.re(r'the turn ended as "(?P<outcome>.*)"'))
def _(world: World, outcome: str) -> None:
    assert world.run(world.clients["alice"].wait, "turn_response")["data"]["outcome"] == outcome


@then("the history is")
def _(world: World, datatable: list[list[str]]) -> None:
    told = [[message["role"], _text(message["content"]).strip()] for message in world.history("alice")]
    assert told == datatable[1:]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


@then("alice heard these events in order")
def _(world: World, datatable: list[list[str]]) -> None:
    # Each of them, in this order; others may stand between them.
    heard = iter(world.clients["alice"].types)
    for (wanted,) in datatable[1:]:
        assert wanted in heard, wanted


# --- what the model was told


@then(parsers.re(r'the model was told "(?P<prompt>.*)"'))
def _(world: World, prompt: str) -> None:
    assert world.prompts[-1].system == prompt


@then(parsers.re(r"the model was asked with (?P<count>\d+) things said before"), converters={"count": int})
def _(world: World, count: int) -> None:
    assert len(world.prompts[-1].conversation) == count


# --- errors and silence


@then(parsers.re(r'(?P<name>\w+) is told the error "(?P<text>.*)" with the code "(?P<code>.*)"'))
def _(world: World, name: str, text: str, code: str) -> None:
    assert (world.answer["error"], world.answer["errorCode"]) == (text, code)


@then(parsers.re(r"(?P<name>\w+) heard of it in a system_error first"))
def _(world: World, name: str) -> None:
    told = world.clients[name].events[-2]
    assert told["type"] == "system_error"
    assert told["data"]["message"] == world.answer["error"]


@then(parsers.re(r"(?P<name>\w+) heard nothing of it"))
def _(world: World, name: str) -> None:
    world.run(world.clients[name].settle)
    heard = [kind for kind in world.clients[name].types if kind not in ADDITIVE]
    assert heard == ["container_created", "image_create_response", "container_list_response"]
