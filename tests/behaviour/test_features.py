"""Runs the features. Steps that only one of them needs are here; the common ones are in conftest.py."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest
from pytest_bdd import parsers, scenarios, then, when
from tests.behaviour.world import World
from tests.support.wire import Client19, client

import agentvm

scenarios("serving.feature", "conversation.feature", "isolation.feature")


# --- serving: the program


@dataclass
class Program:
    """`avm`, running; the watchdog ends every wait for it."""

    process: "subprocess.Popen[str]"
    watchdog: threading.Timer
    said: dict[str, str] = field(default_factory=dict)


@pytest.fixture
def programs() -> Iterator[list[Program]]:
    started: list[Program] = []
    yield started
    for program in started:
        program.watchdog.cancel()
        with program.process as process:
            process.kill()


@when(parsers.re(r'I run "avm (?P<arguments>.*)"'))
def _(programs: list[Program], arguments: str) -> None:
    command = [sys.executable, "-c", "from agentvm.cli.main import main; main()", *arguments.split()]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    program = Program(process, threading.Timer(20, process.kill))
    program.watchdog.start()
    programs.append(program)
    for line in process.stdout:
        what, _, where = line.strip().rpartition(" ")
        program.said[what.split()[0].rstrip(":")] = where
        if "WebSocket" in program.said:
            break


@then("it says where HTTP and WebSocket are")
def _(programs: list[Program]) -> None:
    said = programs[0].said
    assert said["AgentVM"].startswith("http://127.0.0.1:")
    assert said["WebSocket"] == said["AgentVM"].replace("http", "ws") + "/ws"


async def first_answer(url: str, kind: str, **data: Any) -> dict[str, Any]:
    async with client(url) as alice:
        return await alice.request(kind, **data)


@then("a client that connects there is answered")
def _(world: World, programs: list[Program]) -> None:
    answer = world.run(first_answer, programs[0].said["WebSocket"], "container_create_request", containerId="c1")
    assert answer["containerId"] == "c1"


@when("that client asks for an image that does not exist")
def _(world: World, programs: list[Program]) -> None:
    answer = world.run(first_answer, programs[0].said["WebSocket"], "image_run_request", imageId="img_nope")
    assert answer["error"] == "Image not found: img_nope"


@then("the refusal is logged with its time, level and code")
def _(programs: list[Program]) -> None:
    assert programs[0].process.stderr is not None
    entry = json.loads(next(line for line in programs[0].process.stderr if "image_not_found" in line))
    assert entry["level"] == "info"
    assert entry["timestamp"]
    assert entry["code"] == "image_not_found"


@then("it ends with exit code 0 when it is told to stop")
def _(programs: list[Program]) -> None:
    programs[0].process.terminate()
    assert programs[0].process.wait(60) == 0


# --- serving: HTTP


@pytest.fixture
def responses() -> list[httpx2.Response]:
    return []


@when(parsers.re(r'I (?P<method>get|post) "(?P<path>.*)"'))
def _(world: World, responses: list[httpx2.Response], method: str, path: str) -> None:
    with httpx2.Client(base_url=world.running.http, timeout=60) as http:
        responses.append(http.request(method.upper(), path))


@then(parsers.re(r"the status is (?P<status>\d+)"), converters={"status": int})
def _(responses: list[httpx2.Response], status: int) -> None:
    assert responses[-1].status_code == status


@then(parsers.re(r'the answer is exactly its status "ok" and its version'))
def _(responses: list[httpx2.Response]) -> None:
    assert responses[-1].json() == {"status": "ok", "version": agentvm.__version__}


@then("the error has a code, a message, details and a request id")
def _(responses: list[httpx2.Response]) -> None:
    error = responses[-1].json()["error"]
    assert error.keys() == {"code", "message", "details", "requestId"}
    assert error["code"]
    assert error["message"]
    assert error["requestId"].startswith("req_")


# --- isolation


@then(parsers.re(r'(?P<name>\w+) sees (?P<count>\d+) images? in "(?P<container>.*)"'), converters={"count": int})
def _(world: World, name: str, count: int, container: str) -> None:
    assert len(world.request(name, "image_list_request", containerId=container)["records"]) == count


@then(parsers.re(r"(?P<name>\w+) sees only (her|his) own images when (she|he) names no container"))
def _(world: World, name: str) -> None:
    records = world.request(name, "image_list_request")["records"]
    assert [record["imageId"] for record in records] == [world.images[name]["imageId"]]


@when(parsers.re(r'(?P<name>\w+) destroys all agents of "(?P<container>.*)"'))
def _(world: World, name: str, container: str) -> None:
    world.request(name, "agent_destroy_all_request", containerId=container)


@then(parsers.re(r"(?P<name>\w+)'s image is (?P<state>online|offline)"))
def _(world: World, name: str, state: str) -> None:
    assert world.record(name)["online"] is (state == "online")


def test_a_client_of_the_scenarios_is_a_1_9_client(world: World) -> None:
    world.start()
    world.connect("alice")
    world.run(world.clients["alice"].settle)
    assert type(world.clients["alice"]) is Client19
    assert world.clients["alice"].acked
