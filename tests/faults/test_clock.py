"""F14: the wall clock jumps. Deadlines hold, no duration is negative, and what happened keeps its order."""

import time
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from tests.faults.invariants import check_events, check_messages, check_same, check_texts
from tests.faults.process import read_log, read_messages
from tests.support.serving import Play, serving
from tests.support.wire import Client19, client

from agentvm.model.limits import Limits
from agentvm.server import serving as serving_module

HOUR, DAY = 3600, 86400
JUMPS = [HOUR, -HOUR, DAY, -DAY]


class WallClock:
    """The system's clock, which somebody sets. What counts seconds since some start goes on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ahead = 0
        seconds, nanoseconds = time.time, time.time_ns
        monkeypatch.setattr(time, "time", lambda: seconds() + self._ahead)
        monkeypatch.setattr(time, "time_ns", lambda: nanoseconds() + self._ahead * 10**9)

    def jump(self, seconds: int) -> None:
        self._ahead += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> WallClock:
    return WallClock(monkeypatch)


async def jump_within_turns(alice: Client19, image_id: str, play: Play, jump: Callable[[], None]) -> None:
    """Before a turn, in the middle of one and while another waits behind it."""
    await alice.say(image_id, "before")
    jump()
    await alice.say(image_id, "after")
    slow = await alice.request("message_send_request", imageId=image_id, content="slow")
    await alice.wait(lambda event: event["type"] == "text_delta" and event["data"]["text"] == "w1 ")
    waits = await alice.request("message_send_request", imageId=image_id, content="tool")
    jump()
    play.gate.set()
    for sent in (slow, waits):
        await alice.end_of(sent["turnId"])


@pytest.mark.parametrize("seconds", JUMPS)
async def test_f14_a_jump_of_the_clock_ends_no_turn_and_changes_no_order(
    tmp_path: Path, clock: WallClock, seconds: int
) -> None:
    play = Play()
    async with serving(play, data_dir=tmp_path) as server, client(server.url) as alice:
        record = await alice.image()
        await jump_within_turns(alice, record["imageId"], play, lambda: clock.jump(seconds))
        ends = [event["data"] for event in alice.events if event["type"] == "turn_response"]
        assert [end["outcome"] for end in ends] == ["completed"] * 4
        # No turn took an hour, or less than no time, whatever the clock on the wall says.
        assert all(0 <= end["duration"] < 60_000 for end in ends)
        heard = [event for event in alice.events if "cursor" in event]
    # The server may have been restarted by whoever set the clock.
    clock.jump(-seconds)
    async with serving(play, data_dir=tmp_path) as server, client(server.url) as alice:
        await alice.say(record["imageId"], "at last")
        events = await read_log(server.url, record["sessionId"])
        messages = await read_messages(server.url, record["sessionId"])
        check_events(events)
        check_texts(events)
        check_messages(events, messages)
        check_same(heard, events)
        asked = [message["content"] for message in messages if message["role"] == "user"]
        assert asked == ["before", "after", "slow", "tool", "at last"]


@pytest.mark.parametrize("seconds", JUMPS)
async def test_f14_no_deadline_is_lost_or_early_when_the_clock_jumps(
    clock: WallClock, seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving_module, "PING_SECONDS", 0.2)
    async with serving(Play(), limits=Limits(turn_seconds=0.5)) as server, client(server.url) as alice:
        image_id = (await alice.image())["imageId"]
        began = anyio.current_time()
        sent = await alice.request("message_send_request", imageId=image_id, content="slow")
        await alice.wait("text_delta")
        clock.jump(seconds)
        end = await alice.end_of(sent["turnId"])
        # By the clock on the wall the turn took a day, or ended before it began.
        assert anyio.current_time() - began >= 0.5
        assert [event["data"]["code"] for event in alice.events if event["type"] == "error_occurred"] == ["timeout"]
        assert 500 <= end["data"]["duration"] < 60_000
        # The heartbeat went on: the connection is alive.
        await alice.settle()


async def test_f14_the_default_session_leads_also_when_the_clock_was_set_back(clock: WallClock) -> None:
    async with serving() as server, client(server.url) as alice:
        record = await alice.image()
        clock.jump(-DAY)
        await alice.request("session_create_request", imageId=record["imageId"])
        listed = (await alice.request("session_list_request", imageId=record["imageId"]))["sessions"]
        assert len(listed) == 2
        assert listed[0]["sessionId"] == record["sessionId"]
