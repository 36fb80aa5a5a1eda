"""F26: a session is larger than the memory. Its turns run with as much of it as is allowed, and every start succeeds."""

import os
import signal
from pathlib import Path

import anyio
import pytest
from tests.faults.process import Server, open_server, peak_rss, read_log
from tests.faults.server import text_of
from tests.support.wire import client

from agentvm.blueprint.image import build
from agentvm.model.definition import Definition
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, MessageId, TurnId, id_factory
from agentvm.model.image import Image, ImageConfig
from agentvm.model.message import Message, UserMessage
from agentvm.model.turn import Turn
from agentvm.storage.engine import open_store
from agentvm.storage.engines.sqlite.datadir import DATABASE
from agentvm.storage.sql.store import Store

pytestmark = pytest.mark.usefixtures("sqlite_file")

MEGABYTES = int(os.environ.get("AVM_FAULT_MEGABYTES", "100"))
"""Of the session's messages, each of which has one."""

HUGE = 40 * 1000 * 1000
"""Bytes of one message, as servers took them before messages had a bound."""

ROOM = 100 * 1024 * 1024
"""Bytes of memory that a server may need beyond those it starts with."""

HOME = ContainerId("c1")


async def prepare(store: Store) -> Image:
    numbers = iter(range(1, 10**9))
    new_id = id_factory(lambda: 0, lambda bits: next(numbers))
    container = store.tenant(DEFAULT_TENANT).container(HOME)
    await container.create(1)
    image, session = build(Definition(name="d"), ImageConfig(name="n"), HOME, name="", clock=lambda: 1, new_id=new_id)
    await container.add_image(image, session)
    return image


def said(number: int, size: int) -> Message:
    name = f"before{number}"
    return UserMessage(
        id=MessageId(f"m_{name}"),
        timestamp=number,
        turn_id=TurnId(f"turn_{name}"),
        role="user",
        content="x" * size,
    )


async def write(data_dir: Path, sizes: list[int], *, unfinished: bool) -> Image:
    """A session with messages of these sizes; with turns that nobody has answered, as a process that died leaves them."""
    async with open_store(data_dir / DATABASE) as store:
        image = await prepare(store)
        log = store.tenant(DEFAULT_TENANT).container(HOME).log(image.session_id)
        for number, size in enumerate(sizes):
            message = said(number, size)
            assert message.turn_id is not None
            turn = Turn(
                turn_id=message.turn_id,
                container_id=HOME,
                image_id=image.image_id,
                session_id=image.session_id,
                message_id=message.id,
                accepted_at=number,
            )
            await log.record(messages=[message], turns=[turn] if unfinished else [], now=number)
        return image


async def floor(server: Server) -> int:
    """Bytes of memory that a server has when it has done nothing yet."""
    async with client(server.url) as alice:
        await alice.image("c2")
    return peak_rss(server.pid)


async def test_f26_a_session_larger_than_the_memory_is_answered_and_survives_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_dir, empty = tmp_path / "data", tmp_path / "empty"
    data_dir.mkdir()
    image = await write(data_dir, [1_000_000] * MEGABYTES, unfinished=False)
    with anyio.fail_after(200):
        async with open_server(empty) as server:
            most = await floor(server) + ROOM
        monkeypatch.setenv("MODEL_PACE", "0.2")
        async with open_server(data_dir) as server, client(server.url) as alice:
            sent = await alice.request("message_send_request", imageId=image.image_id, content="say hello")
            await alice.wait("text_delta")
            assert peak_rss(server.pid) < most
            await server.end(signal.SIGKILL)
            monkeypatch.setenv("MODEL_PACE", "0.001")
            await server.start()
            # It listens, and nobody has looked at the session yet or will look at all of it.
            events = await read_log(server.url, image.session_id)
            (end,) = [event["data"] for event in events if event["type"] == "turn_response"]
            assert (end["turnId"], end["outcome"]) == (sent["turnId"], "completed")
            text = next(event["data"]["content"][-1]["text"] for event in events if event["type"] == "assistant_message")
            assert text == text_of("say hello")
            assert peak_rss(server.pid) < most


async def test_f26_messages_that_no_model_can_be_told_fail_their_own_turns_and_nobody_elses(tmp_path: Path) -> None:
    data_dir, empty = tmp_path / "data", tmp_path / "empty"
    data_dir.mkdir()
    image = await write(data_dir, [HUGE] * 2, unfinished=True)
    with anyio.fail_after(200):
        async with open_server(empty) as server:
            most = await floor(server) + ROOM
        async with open_server(data_dir) as server, client(server.url) as alice:
            other = await alice.image("c2")
            assert (await alice.say(other["imageId"], "say hello"))["data"]["outcome"] == "completed"
            sent = await alice.request("message_send_request", imageId=image.image_id, content="say hello")
            end = await alice.end_of(sent["turnId"])
            assert end["data"]["outcome"] == "completed"
            # Those from before have failed, one after the other, each with a reason.
            errors = [event["data"]["code"] for event in alice.events if event["type"] == "error_occurred"]
            assert set(errors) <= {"history_too_large"}
            assert peak_rss(server.pid) < most
            session = await alice.request("session_get_request", sessionId=image.session_id)
            assert "quarantine" not in session["session"]
