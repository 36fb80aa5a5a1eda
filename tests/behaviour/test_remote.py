"""What only a remote runtime has: a connection that can be lost, and comes back."""

import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
import pytest
from tests.support.serving import Play, restartable, serving
from websockets.asyncio.server import ServerConnection, serve

from agentvm import AgentX, WireEvent, create_agentx, remote_runtime
from agentvm.client import remote
from agentvm.errors import ChannelClosed, ConfigInvalid, RequestTimeout


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first delays of the back-off, without the seconds."""
    monkeypatch.setattr(remote, "FIRST_DELAY_SECONDS", 0.01)
    monkeypatch.setattr(remote, "DELAY_SECONDS_MAX", 0.05)


class Heard:
    """Everything an application hears, and a way to wait for some of it."""

    def __init__(self, agentx: AgentX) -> None:
        self.events: list[WireEvent] = []
        self._news = anyio.Event()
        agentx.runtime.on("*", self._add)

    def _add(self, event: WireEvent) -> None:
        self.events.append(event)
        self._news.set()
        self._news = anyio.Event()

    async def wait(self, kind: str, count: int = 1) -> WireEvent:
        with anyio.fail_after(60):
            while len(found := [event for event in self.events if event.type == kind]) < count:
                await self._news.wait()
        return found[count - 1]


async def test_after_a_restart_of_the_server_it_reconnects_and_hears_its_sessions_again(tmp_path: Path) -> None:
    async with restartable(Play(), tmp_path) as server:
        first = await server.start()
        async with create_agentx(remote_runtime(first.url)) as agentx:
            heard = Heard(agentx)
            image = await agentx.images.create(container_id="c1")
            session = await agentx.sessions.create(image.image_id)
            await server.stop()
            await heard.wait("disconnected")
            with pytest.raises(ChannelClosed):
                await agentx.images.get(image.image_id)
            second = await server.start()
            assert second.url == first.url
            await heard.wait("connected")
            async with create_agentx(remote_runtime(second.url)) as other:
                # Somebody else speaks; the first one asked for nothing since it came back.
                await (await other.images.run(image.image_id)).receive("hello")
                await heard.wait("turn_response")
                found = await other.sessions.get(session.session_id)
                assert found is not None
                await (await found.resume()).receive("hello")
                await heard.wait("turn_response", 2)
            assert await agentx.images.get(image.image_id) is not None


async def test_it_tries_again_and_again_while_nobody_answers(tmp_path: Path) -> None:
    async with restartable(Play(), tmp_path) as server:
        first = await server.start()
        async with create_agentx(remote_runtime(first.url)) as agentx:
            heard = Heard(agentx)
            await server.stop()
            await heard.wait("disconnected")
            async with nobody(first.port) as tried:
                await tried(3)
            await server.start()
            await heard.wait("connected")
            assert await agentx.containers.list() == ()


@asynccontextmanager
async def nobody(port: int) -> AsyncIterator[Callable[[int], Awaitable[None]]]:
    """Hangs up on everybody; yields a way to wait for so many calls."""
    calls = anyio.Semaphore(0)

    async def hang_up(stream: anyio.abc.SocketStream) -> None:
        await stream.aclose()
        calls.release()

    async def tried(count: int) -> None:
        with anyio.fail_after(60):
            for _ in range(count):
                await calls.acquire()

    async with await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port, reuse_port=False) as listener:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, hang_up)
            yield tried
            tasks.cancel_scope.cancel()


async def test_calls_that_wait_for_an_answer_fail_when_the_socket_drops() -> None:
    async def hang_up_when_asked(peer: ServerConnection) -> None:
        await peer.recv()
        peer.transport.abort()

    async with serve(hang_up_when_asked, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with create_agentx(remote_runtime(f"ws://127.0.0.1:{port}/ws")) as agentx:
            with anyio.fail_after(60), pytest.raises(ChannelClosed):
                await agentx.containers.list()


async def test_a_call_that_is_never_answered_times_out() -> None:
    async def silent(peer: ServerConnection) -> None:
        await peer.wait_closed()

    async with serve(silent, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with create_agentx(remote_runtime(f"ws://127.0.0.1:{port}", timeout=0.05)) as agentx:
            with anyio.fail_after(60), pytest.raises(RequestTimeout):
                await agentx.containers.list()


async def test_a_stream_goes_on_when_the_server_was_restarted_in_the_middle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "FIRST_DELAY_SECONDS", 0.01)
    play = Play()
    async with restartable(play, tmp_path) as server:
        running = await server.start()
        async with create_agentx(remote_runtime(running.url)) as agentx:
            image = await agentx.images.create()
            agent = await agentx.images.run(image.image_id)
            heard: list[WireEvent] = []
            with anyio.fail_after(60):
                async for event in agent.stream("slow"):
                    heard.append(event)
                    if event.data.get("text") == "w1 " and not play.gate.is_set():
                        await server.stop()
                        play.gate.set()
                        await server.start()
            kinds = [event.type for event in heard]
            assert kinds.count("turn_resumed") == kinds.count("turn_response") == 1
            assert "".join(str(event.data["text"]) for event in heard if event.type == "text_delta") == "w0 w1 w2 "
            # Who begins anew with each message knows what this one begins with.
            again = heard[kinds.index("turn_resumed") :]
            assert [event.data.get("text") for event in again if event.type == "message_start"] == ["w0 w1 "]
            cursors = [int(event.cursor or 0) for event in heard]
            assert cursors == list(range(cursors[0], cursors[0] + len(cursors)))


async def test_frames_that_are_no_events_are_ignored() -> None:
    async def babble(peer: ServerConnection) -> None:
        request_id = json.loads(await peer.recv())["data"]["requestId"]
        for noise in ("not json", "[]", "null", "{}", '{"__msgId":"1","__payload":"{}"}', '{"type":5}'):
            await peer.send(noise)
        await peer.send(b"\xff")
        await peer.send('{"type":"hello_event"}')
        answer = {"category": "response", "type": "any", "data": {"requestId": request_id, "containerIds": ["c1"]}}
        await peer.send(json.dumps(answer))
        await peer.wait_closed()

    async with serve(babble, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with create_agentx(remote_runtime(f"ws://127.0.0.1:{port}")) as agentx:
            heard = Heard(agentx)
            assert await agentx.containers.list() == ("c1",)
            assert [event.type for event in heard.events] == ["hello_event"]


async def test_two_remote_applications_share_an_image_and_hear_the_same() -> None:
    async with serving(Play()) as server:
        async with create_agentx(remote_runtime(server.url)) as one, create_agentx(remote_runtime(server.url)) as two:
            image = await one.images.create(container_id="c1")
            assert await two.images.get(image.image_id) is not None
            heard = [Heard(one), Heard(two)]
            await (await one.images.run(image.image_id)).receive("tool please")
            ends = [await each.wait("turn_response") for each in heard]
            assert ends[0] == ends[1]
            turn = [[event for event in each.events if event.context.get("turnId")] for each in heard]
            assert turn[0] == turn[1]


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/ws", "nonsense", "ws://"])
async def test_a_url_that_is_none_is_the_callers_mistake(url: str) -> None:
    with pytest.raises(ConfigInvalid):
        async with create_agentx(remote_runtime(url)):
            pass


async def test_a_server_that_is_not_there_is_said_at_once() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with anyio.fail_after(60), pytest.raises(ChannelClosed):
        async with create_agentx(remote_runtime(f"ws://127.0.0.1:{port}/ws")):
            pass


async def test_a_path_without_a_socket_is_said_at_once() -> None:
    async with serving() as server:
        with anyio.fail_after(60), pytest.raises(ChannelClosed):
            async with create_agentx(remote_runtime(f"ws://127.0.0.1:{server.port}/nope")):
                pass
