"""F8: the disk is full, read-only, broken or slow. Work is refused with a clear code, nothing is half-stored, and all goes
on by itself once the disk does."""

from collections.abc import Iterator
from pathlib import Path

import anyio
import apsw
import pytest
from tests.faults.disk import Disk, Fault, faulty_disk
from tests.faults.invariants import Frame, check_events, check_messages, check_texts
from tests.faults.process import read_log, read_messages
from tests.support.serving import Play, serving
from tests.support.wire import Client19, client

from agentvm.storage.engines.sqlite.datadir import DATABASE

pytestmark = pytest.mark.usefixtures("sqlite_file")

FAULTS: list[Fault] = ["full", "read-only", "sync"]
REFUSED = "store_failed"


@pytest.fixture
def disk() -> Iterator[Disk]:
    with faulty_disk() as disk:
        yield disk


def check_file(data_dir: Path, disk: Disk) -> None:
    connection = apsw.Connection(str(data_dir / DATABASE), vfs=disk.base)
    try:
        assert connection.pragma("integrity_check") == "ok"
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    finally:
        connection.close()


async def check_session(url: str, session_id: str) -> tuple[list[Frame], list[Frame]]:
    """Its events and its messages."""
    events, messages = await read_log(url, session_id), await read_messages(url, session_id)
    check_events(events)
    check_texts(events)
    check_messages(events, messages)
    return events, messages


async def refused(one: Client19, image_id: str) -> None:
    """Whatever would have to be stored is refused, and what is stored can still be read."""
    for kind, ask in (
        ("message_send_request", {"imageId": image_id, "content": "lost"}),
        ("message_send_request", {"imageId": image_id, "content": "lost", "clientMessageId": "k"}),
        ("image_create_request", {"containerId": "c1", "config": {"name": "lost"}}),
        ("image_update_request", {"imageId": image_id, "updates": {"name": "lost"}}),
        ("session_create_request", {"imageId": image_id}),
    ):
        reply = await one.request(kind, **ask)
        assert reply["errorCode"] == REFUSED, (kind, reply)
    assert (await one.request("image_get_request", imageId=image_id))["record"]["imageId"] == image_id


def outcome_of(events: list[Frame], turn_id: str) -> str:
    (end,) = [event for event in events if event["type"] == "turn_response" and event["data"]["turnId"] == turn_id]
    return str(end["data"]["outcome"])


async def run_into(disk: Disk, fault: Fault, alice: Client19, image_id: str, play: Play) -> str:
    """A turn is running when the disk fails, and is told to have ended; its id."""
    sent = await alice.request("message_send_request", imageId=image_id, content="slow")
    await alice.wait(lambda event: event["type"] == "text_delta" and event["data"]["text"] == "w1 ")
    disk.fault = fault
    await refused(alice, image_id)
    play.gate.set()
    end = await alice.end_of(sent["turnId"])
    assert end["data"]["outcome"] == "failed"
    assert alice.events[-2]["type"] == "error_occurred"
    assert alice.events[-2]["data"]["code"] == REFUSED
    # Not stored, so it has no place in the log yet.
    assert "cursor" not in end
    return str(sent["turnId"])


@pytest.mark.parametrize("fault", FAULTS)
async def test_f8_a_failing_disk_refuses_work_stores_nothing_half_and_recovers_without_a_restart(
    tmp_path: Path, disk: Disk, fault: Fault
) -> None:
    play = Play()
    async with serving(play, data_dir=tmp_path) as server, client(server.url) as alice:
        record, neighbour = await alice.image(), await alice.image("c2")
        await alice.say(record["imageId"], "before")
        turn_id = await run_into(disk, fault, alice, record["imageId"], play)
        await refused(alice, neighbour["imageId"])
        assert disk.hits > 0
        disk.fault = None
        for image in (record, neighbour):
            assert (await alice.say(image["imageId"], "after"))["data"]["outcome"] == "completed"
        events, messages = await check_session(server.url, record["sessionId"])
        assert outcome_of(events, turn_id) == "failed"
        assert [message["content"] for message in messages if message["role"] == "user"] == ["before", "slow", "after"]
        _, messages = await check_session(server.url, neighbour["sessionId"])
        assert [message["content"] for message in messages if message["role"] == "user"] == ["after"]
    check_file(tmp_path, disk)


@pytest.mark.parametrize("fault", FAULTS)
async def test_f8_the_end_of_a_turn_that_ran_into_the_fault_is_stored_once_the_disk_is_back(
    tmp_path: Path, disk: Disk, fault: Fault
) -> None:
    play = Play()
    async with serving(play, data_dir=tmp_path) as server, client(server.url) as alice:
        record = await alice.image()
        turn_id = await run_into(disk, fault, alice, record["imageId"], play)
        disk.fault = None
    # Nobody said another word: the server stored it when it stopped.
    check_file(tmp_path, disk)
    async with serving(play, data_dir=tmp_path) as server:
        events, messages = await check_session(server.url, record["sessionId"])
        assert outcome_of(events, turn_id) == "failed"
        assert "turn_resumed" not in [event["type"] for event in events]
        assert [message["content"] for message in messages if message["role"] == "user"] == ["slow"]


@pytest.mark.parametrize("fault", FAULTS)
async def test_f8_a_server_that_stops_on_a_failing_disk_leaves_a_file_that_recovers(
    tmp_path: Path, disk: Disk, fault: Fault
) -> None:
    play = Play()
    async with serving(play, data_dir=tmp_path) as server, client(server.url) as alice:
        record = await alice.image()
        turn_id = await run_into(disk, fault, alice, record["imageId"], play)
    disk.fault = None
    check_file(tmp_path, disk)
    async with serving(play, data_dir=tmp_path) as server:
        events, _ = await check_session(server.url, record["sessionId"])
        # The failure was told but could not be kept: for the file the turn never ended, so it goes on, and ends once.
        # What could not be synced may be in the file all the same; then the turn has the end that was told.
        assert outcome_of(events, turn_id) in (("failed", "completed") if fault == "sync" else ("completed",))


async def test_f8_on_a_slow_disk_turns_wait_for_it_and_nobody_else_does(tmp_path: Path, disk: Disk) -> None:
    async with serving(data_dir=tmp_path) as server, client(server.url) as alice, client(server.url) as bob:
        record = await alice.image()
        disk.fault = "slow"
        request_id = await alice.ask("message_send_request", imageId=record["imageId"], content="hello there")
        for _ in range(20):
            # Reading, and everything that is in memory, does not wait for the disk.
            assert (await bob.request("image_get_request", imageId=record["imageId"]))["record"]
        assert "message_send_response" not in alice.types
        sent = await alice.answer(request_id)
        assert (await alice.end_of(sent["data"]["turnId"]))["data"]["outcome"] == "completed"
        assert disk.hits > 1
        disk.fault = None
        await check_session(server.url, record["sessionId"])
    check_file(tmp_path, disk)
    with anyio.fail_after(200):
        async with serving(data_dir=tmp_path) as server:
            await check_session(server.url, record["sessionId"])
