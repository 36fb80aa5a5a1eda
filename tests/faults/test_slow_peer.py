"""F6: a peer that stops reading is fed from the log afterwards and misses nothing; the others do not notice it."""

import json
from pathlib import Path

import anyio
import pytest
from tests.faults.invariants import Frame, check_events, check_texts
from tests.support.hostile import RawSocket
from tests.support.serving import serving
from tests.support.wire import client

from agentvm.drivers.scripted import reply
from agentvm.runtime.broadcaster import Broadcaster
from agentvm.runtime.channel import MAX_BYTES, MAX_FRAMES, Channel
from agentvm.server import serving as serving_module

CHUNK = "x" * 16_000


async def test_f6_who_stops_reading_gets_everything_later_and_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, channels = 25, list[Channel]()
    attach = Broadcaster.attach

    def note(broadcaster: Broadcaster, channel: Channel) -> None:
        channels.append(channel)
        attach(broadcaster, channel)

    monkeypatch.setattr(Broadcaster, "attach", note)
    # Whoever does not read answers no ping either; a busy machine takes longer here than the time between two.
    monkeypatch.setattr(serving_module, "PING_SECONDS", 600.0)
    async with (
        serving(lambda prompt: reply(*[CHUNK] * 40), data_dir=tmp_path) as server,
        client(server.url) as alice,
        RawSocket.open(server.port) as slow,
    ):
        record = await alice.image()
        subscribe = {"type": "subscribe", "sessionId": record["sessionId"], "afterCursor": "0"}
        await slow.send_frame(json.dumps(subscribe).encode())
        with anyio.fail_after(60):
            for _ in range(turns):
                assert (await alice.say(record["imageId"], "go"))["data"]["outcome"] == "completed"
        told = [event for event in alice.events if "cursor" in event]
        assert any(channel.lagging for channel in channels)
        # What is kept in memory for the slow one is bounded.
        for channel in channels:
            assert len(channel._frames) <= MAX_FRAMES
            assert channel._bytes <= MAX_BYTES
        got: list[Frame] = []
        with anyio.fail_after(60):
            while len(got) < len(told):
                frame = json.loads((await slow.receive_frame())[1])
                if "cursor" in frame:
                    got.append(frame)
        check_events(got)
        check_texts(got)
        assert [(event["cursor"], event["type"]) for event in got] == [(event["cursor"], event["type"]) for event in told]
