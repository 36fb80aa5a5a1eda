"""A turn is replayed from the files exactly as it was told, and the files stay as they are."""

import hashlib
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import apsw
import pytest
from tests.cli.desk import Done, avm
from tests.faults.process import Server, open_server
from tests.support.serving import Play, serving
from websockets.asyncio.client import ClientConnection, connect

from agentvm.storage.engine import open_store

Frame = dict[str, Any]
NOWHERE = "http://127.0.0.1:9"
"""No server is asked."""


def files(folder: Path) -> dict[str, tuple[int, str]]:
    return {
        path.name: (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in folder.iterdir()
        if path.is_file()
    }


async def offline(*arguments: str) -> Done:
    with anyio.fail_after(60):
        return await anyio.to_thread.run_sync(lambda: avm("turn", *arguments, url=NOWHERE))


async def replayed(turn_id: str, data_dir: Path) -> list[Frame]:
    done = await offline("replay", turn_id, "--data", str(data_dir), "--json")
    assert done.code == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


class Listener:
    """Hears everything of a session, and asks."""

    def __init__(self, socket: ClientConnection, heard: list[Frame]) -> None:
        self.socket, self.heard = socket, heard

    async def until(self, done: Callable[[Frame], bool]) -> Frame:
        with anyio.fail_after(60):
            while True:
                frame: Frame = json.loads(await self.socket.recv())
                if "cursor" in frame:
                    self.heard.append(frame)
                if done(frame):
                    return frame

    async def ask(self, kind: str, **data: object) -> Frame:
        await self.socket.send(json.dumps({"type": f"{kind}_request", "data": {"requestId": "r", **data}}))
        return await self.until(lambda frame: frame.get("type") == f"{kind}_response")

    async def make_image(self) -> Frame:
        await self.ask("container_create", containerId="c1")
        image: Frame = (await self.ask("image_create", containerId="c1", config={}))["data"]["record"]
        return image

    async def end(self, turn_id: str) -> None:
        await self.until(lambda frame: frame.get("type") == "turn_response" and frame["data"]["turnId"] == turn_id)


def of_turn(heard: list[Frame], turn_id: str) -> list[Frame]:
    return [frame for frame in heard if frame["context"].get("turnId") == turn_id]


async def test_every_turn_is_replayed_as_a_socket_heard_it_beside_its_server_and_without(tmp_path: Path) -> None:
    heard: list[Frame] = []
    turns: list[str] = []
    async with serving(Play(), data_dir=tmp_path) as served, connect(f"{served.url}") as socket:
        listener = Listener(socket, heard)
        image = await listener.make_image()
        for text in ("tool please", "many 1200", "crash", "fail", "北京 is nice"):
            sent = await listener.ask("message_send", imageId=image["imageId"], content=text)
            turns.append(sent["data"]["turnId"])
            await listener.end(turns[-1])
        for turn_id in turns:
            assert await replayed(turn_id, tmp_path) == of_turn(heard, turn_id)
    before = files(tmp_path)
    for turn_id in turns:
        mine = of_turn(heard, turn_id)
        assert await replayed(turn_id, tmp_path) == mine
        assert [frame["type"] for frame in mine][-1] == "turn_response"
    # Also when each token came, not only the first of a run.
    assert len({frame["timestamp"] for frame in of_turn(heard, turns[1]) if frame["type"] == "text_delta"}) > 1
    done = await offline("replay", turns[-1], "--data", str(tmp_path))
    assert (done.out, done.err.startswith("[completed after ")) == ("北京 is nice\n", True)
    listed = json.loads((await offline("list", "--session", image["sessionId"], "--data", str(tmp_path), "--json")).out)
    assert [one["turnId"] for one in listed] == turns[::-1]
    shown = json.loads((await offline("show", turns[0], "--data", str(tmp_path), "--json")).out)
    assert (shown["complete"], [one["name"] for one in shown["tools"]]) == (True, ["calculator"])
    assert sum(shown["stages"].values()) == shown["duration"]
    assert files(tmp_path) == before


async def collect(server: Server, session_id: str, heard: list[Frame], turn_id: str) -> None:
    """What was missed, and what comes, up to the turn's end."""
    async with connect(server.url) as socket:
        await socket.send(json.dumps({"type": "subscribe", "sessionId": session_id, "afterCursor": heard[-1]["cursor"]}))
        await Listener(socket, heard).end(turn_id)


async def test_a_turn_that_was_killed_is_replayed_as_far_as_it_came_and_when_it_went_on_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So slow that it cannot have ended when it is killed.
    monkeypatch.setenv("MODEL_PACE", "0.06")
    heard: list[Frame] = []
    async with open_server(tmp_path) as server:
        async with connect(server.url) as socket:
            listener = Listener(socket, heard)
            image = await listener.make_image()
            sent = await listener.ask("message_send", imageId=image["imageId"], content="tool long")
            turn_id = sent["data"]["turnId"]
            await listener.until(lambda frame: frame.get("type") == "text_delta" and ":3 " in frame["data"]["text"])
            await server.end(signal.SIGKILL)
        before = files(tmp_path)
        cut = await replayed(turn_id, tmp_path)
        mine = of_turn(heard, turn_id)
        # What was told is stored; what is stored may not have been heard any more.
        assert cut[: len(mine)] == mine
        assert cut[-1]["type"] != "turn_response"
        assert files(tmp_path) == before
        await server.start()
        await collect(server, image["sessionId"], heard, turn_id)
        whole = of_turn(heard, turn_id)
        assert {"turn_resumed", "turn_response"} <= {frame["type"] for frame in whole}
        assert await replayed(turn_id, tmp_path) == whole
        await server.end(signal.SIGTERM)
    assert await replayed(turn_id, tmp_path) == whole


async def test_a_turn_whose_log_was_trimmed_says_so_and_what_it_used_is_still_shown(tmp_path: Path) -> None:
    heard: list[Frame] = []
    async with serving(Play(), data_dir=tmp_path) as served, connect(served.url) as socket:
        listener = Listener(socket, heard)
        image = await listener.make_image()
        turns = []
        for text in ("one", "two"):
            sent = await listener.ask("message_send", imageId=image["imageId"], content=text)
            turns.append(sent["data"]["turnId"])
            await listener.end(turns[-1])
    async with open_store(tmp_path / "agentvm.db") as store:
        await store.trim_log(2**50, 2**50)
    done = await offline("replay", turns[0], "--data", str(tmp_path))
    assert (done.code, done.out) == (5, "")
    assert "were removed: see limits.logDays" in done.err
    assert "backup" in done.err
    assert await replayed(turns[1], tmp_path) == of_turn(heard, turns[1])
    shown = json.loads((await offline("show", turns[0], "--data", str(tmp_path), "--json")).out)
    assert (shown["complete"], shown["usage"]["outputTokens"]) == (False, 1)


async def test_a_tenant_narrows_and_what_is_not_there_is_said(tmp_path: Path) -> None:
    heard: list[Frame] = []
    async with serving(Play(), data_dir=tmp_path) as served, connect(served.url) as socket:
        listener = Listener(socket, heard)
        image = await listener.make_image()
        sent = await listener.ask("message_send", imageId=image["imageId"], content="one")
        turn_id = sent["data"]["turnId"]
        await listener.end(turn_id)
    data = ("--data", str(tmp_path))
    assert (await offline("replay", turn_id, *data, "--tenant", "default")).out == "one\n"
    for arguments in (
        ("replay", turn_id, *data, "--tenant", "other"),
        ("show", "turn_x", *data),
        ("list", "--session", "sess_x", *data),
        ("replay", turn_id, "--data", str(tmp_path / "nowhere")),
    ):
        done = await offline(*arguments)
        assert done.code == 5, arguments
        assert "not found" in done.err or "There is no database" in done.err
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(("version", "said"), [(3, "Reading upgrades nothing"), (999, "newer AgentVM")])
async def test_another_schema_is_refused_and_left_alone(tmp_path: Path, version: int, said: str) -> None:
    async with serving(Play(), data_dir=tmp_path):
        pass
    connection = apsw.Connection(str(tmp_path / "agentvm.db"))
    connection.pragma("user_version", version)
    connection.close()
    before = files(tmp_path)
    done = await offline("replay", "turn_1", "--data", str(tmp_path))
    assert done.code == 1
    assert said in done.err
    assert files(tmp_path) == before
