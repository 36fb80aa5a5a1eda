import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import pytest
from websockets.asyncio.server import ServerConnection, serve

from agentvm import WireEvent
from agentvm.client import remote
from agentvm.client.agentx import create_agentx
from agentvm.client.remote import remote_runtime
from agentvm.client.verbs import AgentX
from agentvm.config import MEMORY, ServerConfig, SystemSettings
from agentvm.drivers.scripted import ScriptedDriver
from agentvm.errors import (
    ChannelClosed,
    ConfigInvalid,
    ImageNotFound,
    InvalidInput,
    RemoteError,
    RequestTimeout,
    UnknownCommand,
)
from agentvm.errors.bounds import InputTooLarge
from agentvm.protocol import codec
from agentvm.server.local import start_server

IN_MEMORY = ServerConfig(system=SystemSettings(data_dir=MEMORY, port=0))
Behaviour = Callable[[ServerConnection], Awaitable[None]]


@asynccontextmanager
async def connected() -> AsyncIterator[AgentX]:
    """A client of a real server."""
    with anyio.fail_after(60):
        async with start_server(IN_MEMORY, drivers={"scripted": ScriptedDriver()}) as server:
            async with create_agentx(remote_runtime(server.ws_url)) as agentx:
                yield agentx


@asynccontextmanager
async def served_by(behaviour: Behaviour) -> AsyncIterator[str]:
    """The URL of a server that does with each connection what the test wants."""
    with anyio.fail_after(60):
        async with serve(behaviour, "127.0.0.1", 0) as server:
            yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def answer(text: str | bytes, **data: object) -> str:
    request = json.loads(text)
    body = {"requestId": request["data"]["requestId"], **data}
    return json.dumps({"type": "x_response", "category": "response", "data": body})


def told(session_id: str, cursor: int) -> str:
    return json.dumps({"type": "text_delta", "data": {}, "context": {"sessionId": session_id}, "cursor": str(cursor)})


async def test_errors_come_back_as_their_own_class() -> None:
    async with connected() as agentx:
        with pytest.raises(ImageNotFound):
            await agentx.images.run("nope")
        with pytest.raises(UnknownCommand):
            await agentx.request("image_explode_request")
        with pytest.raises(InvalidInput):
            await agentx.request("image_run_request", {"imageId": 5})


@pytest.mark.parametrize("wrong", [5, "\ud800", object()])
async def test_what_cannot_be_sent_is_refused_at_once(wrong: object) -> None:
    async with connected() as agentx:
        with pytest.raises(InvalidInput):
            await agentx.containers.create(wrong)  # type: ignore[arg-type]  # which is the point
        with pytest.raises(InvalidInput):
            await agentx.request("container_create_request", {"containerId": wrong})
        assert await agentx.containers.list() == ()


@pytest.mark.parametrize("kind", ["container_list", "container_list_response", ""])
async def test_what_is_no_request_is_refused_at_once_not_after_the_timeout(kind: str) -> None:
    async with connected() as agentx:
        with pytest.raises(UnknownCommand):
            await agentx.request(kind)


async def test_a_channel_that_was_closed_opens_again_and_goes_on_where_it_was() -> None:
    async with connected() as agentx:
        channel = agentx.runtime.channel
        image = await agentx.images.create(container_id="c1")
        agent = await agentx.images.run(image.image_id)
        states: list[str] = [channel.state]
        async with channel.events() as events:
            await channel.disconnect()
            states.append(channel.state)
            assert {event.type async for event in events} <= {"disconnected"}
        with pytest.raises(ChannelClosed, match="connect"):
            await agentx.containers.list()
        await channel.connect()
        states.append(channel.state)
        assert [event.type async for event in agent.stream("Hi")][-1] == "turn_response"
        assert states == ["open", "closed", "open"]


async def test_own_replies_are_not_events_but_everything_else_is() -> None:
    async with connected() as agentx:
        heard: list[str] = []
        stop = agentx.runtime.on("*", lambda event: heard.append(event.type))
        image = await agentx.images.create(container_id="c1")
        agent = await agentx.images.run(image.image_id)
        told = [event.type async for event in agent.stream("Hi")]
        stop()
        await agentx.containers.create("c2")
        assert heard[:3] == ["container_created", "image_created", "agent_registered"]
        # The title comes beside the turn, whenever it is ready.
        assert [kind for kind in heard[3:] if kind != "session_title_updated"] == told
        assert [kind for kind in heard if kind.endswith("_response") and kind != "turn_response"] == []


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/ws", "nonsense", "", "ws://[", "ws://h:port/"])
async def test_what_is_no_websocket_url_is_refused_with_the_remedy(url: str) -> None:
    with anyio.fail_after(60), pytest.raises(ConfigInvalid, match="ws://"):
        async with create_agentx(remote_runtime(url)):
            pass


async def test_a_server_that_is_not_there_is_said_to_be_unreachable() -> None:
    with anyio.fail_after(60), pytest.raises(ChannelClosed):
        async with create_agentx(remote_runtime("ws://127.0.0.1:1/ws")):
            pass


async def test_a_server_that_refuses_is_said_to_be_unreachable() -> None:
    async with start_server(IN_MEMORY, drivers={"scripted": ScriptedDriver()}) as server:
        with anyio.fail_after(60), pytest.raises(ChannelClosed):
            async with create_agentx(remote_runtime(f"ws://127.0.0.1:{server.port}/nope")):
                pass


async def test_a_request_nobody_answers_times_out_and_the_next_one_is_answered() -> None:
    asked: list[str] = []

    async def answer_the_second(socket: ServerConnection) -> None:
        async for text in socket:
            asked.append(json.loads(text)["type"])
            if len(asked) == 2:
                await socket.send(answer(text, containerIds=["c1"]))

    async with served_by(answer_the_second) as url, create_agentx(remote_runtime(url, timeout=0.1)) as agentx:
        with pytest.raises(RequestTimeout):
            await agentx.containers.list()
        agentx.runtime.channel._timeout = 60.0  # type: ignore[attr-defined]
        assert await agentx.containers.list() == ("c1",)


async def test_noise_and_replies_to_nobody_do_not_disturb() -> None:
    async def be_noisy(socket: ServerConnection) -> None:
        async for text in socket:
            for noise in ("not json", "[]", '{"__msgId":"a","__payload":"{}"}', '{"type":5}'):
                await socket.send(noise)
            await socket.send(b'{"type":"binary_event"}')
            await socket.send(json.dumps({"type": "x", "category": "response", "data": {"requestId": "another's"}}))
            await socket.send(answer(text, containerIds=["c1"]))

    async with served_by(be_noisy) as url, create_agentx(remote_runtime(url)) as agentx:
        heard: list[str] = []
        agentx.runtime.on("*", lambda event: heard.append(event.type))
        assert await agentx.containers.list() == ("c1",)
        assert heard == ["binary_event", "x"]


async def test_an_error_without_a_code_or_a_reply_of_the_wrong_shape_is_the_servers() -> None:
    async def misbehave(socket: ServerConnection) -> None:
        bodies: list[dict[str, object]] = [{"error": "no"}, {"error": "no", "errorCode": 5}, {"containerIds": 7}]
        async for text in socket:
            await socket.send(answer(text, **bodies.pop(0)))

    async with served_by(misbehave) as url, create_agentx(remote_runtime(url)) as agentx:
        for _ in range(2):
            with pytest.raises(RemoteError):
                await agentx.containers.list()
        with pytest.raises(InvalidInput):
            await agentx.containers.list()


async def test_headers_go_with_the_upgrade() -> None:
    seen: list[str] = []

    async def look(socket: ServerConnection) -> None:
        assert socket.request is not None
        seen.append(socket.request.headers["Authorization"])
        await socket.wait_closed()

    async with served_by(look) as url, create_agentx(remote_runtime(url, headers={"Authorization": "Bearer t"})):
        pass
    assert seen == ["Bearer t"]


async def test_a_dropped_link_fails_what_waits_comes_back_and_subscribes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "FIRST_DELAY_SECONDS", 0.01)
    frames: list[list[str]] = []
    after: list[str | None] = []
    subscribed = anyio.Event()

    async def drop_the_first(socket: ServerConnection) -> None:
        frames.append([])
        async for text in socket:
            request = json.loads(text)
            frames[-1].append(request.get("sessionId") or request["type"])
            if request["type"] == "image_list_request":
                await socket.send(answer(text, records=[], __subscriptions=["sess_1", "sess_2"], sessionId="sess_3"))
            elif len(frames) == 1:
                await socket.send(told("sess_1", 7))
                return
            if len(frames[-1]) == 3:
                after.append(request.get("afterCursor"))
                for cursor in (6, 7, 8):
                    await socket.send(told("sess_1", cursor))
                subscribed.set()
            elif len(frames) > 1:
                after.append(request.get("afterCursor"))

    async with served_by(drop_the_first) as url, create_agentx(remote_runtime(url)) as agentx:
        heard: list[str] = []
        agentx.runtime.on("*", lambda event: heard.append(event.type))
        await agentx.images.list()
        async with agentx.runtime.channel.events() as events:
            with pytest.raises(ChannelClosed):
                await agentx.containers.list()
            with pytest.raises(ChannelClosed, match="Not connected"):
                await agentx.containers.list()
            await subscribed.wait()
            # Iterators live on, miss nothing and hear nothing twice.
            assert [(await anext(events)).type for _ in range(4)] == ["text_delta", "disconnected", "connected", "text_delta"]
        assert heard == ["text_delta", "disconnected", "connected", "text_delta"]
        assert frames[1] == ["sess_1", "sess_2", "sess_3"]
        assert after == ["7", None, None]


async def test_a_client_whose_cursor_is_from_another_history_starts_over_and_says_so() -> None:
    async def from_elsewhere(socket: ServerConnection) -> None:
        await socket.recv()
        await socket.send(told("sess_1", 500))
        await socket.send(json.dumps({"type": "resync_required", "data": {"sessionId": "sess_1", "cursor": "3"}}))
        await socket.send(told("sess_1", 4))
        await socket.wait_closed()

    async with served_by(from_elsewhere) as url, create_agentx(remote_runtime(url, timeout=0.2)) as agentx:
        heard: list[str | None] = []
        again = anyio.Event()

        def hear(event: WireEvent) -> None:
            heard.append(event.cursor)
            if event.cursor == "4":
                again.set()

        agentx.runtime.on("text_delta", hear)
        async with agentx.runtime.channel.events() as events:
            with pytest.raises(RequestTimeout):
                await agentx.containers.list()
            # The iterator ends: what it missed is in the history.
            assert [event.type async for event in events] == ["text_delta", "resync_required"]
        with anyio.fail_after(60):
            await again.wait()
        assert heard == ["500", "4"]


async def test_the_link_keeps_trying_until_the_server_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "FIRST_DELAY_SECONDS", 0.01)
    drivers = {"scripted": ScriptedDriver()}
    back, done, failures = anyio.Event(), anyio.Event(), 0

    class Counted:
        """Counts attempts that failed, in place of the logger."""

        def info(self, event: str, **details: object) -> None:
            nonlocal failures
            failures += 1
            tried.set()

    tried = anyio.Event()
    monkeypatch.setattr(remote, "logger", Counted())
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            async with start_server(IN_MEMORY, drivers=drivers) as server:
                port = server.port
                opened = anyio.Event()

                async def be_a_client() -> None:
                    async with create_agentx(remote_runtime(server.ws_url)) as agentx:
                        agentx.runtime.on("connected", lambda event: back.set())
                        opened.set()
                        await back.wait()
                        assert await agentx.containers.list() == ()
                        done.set()

                tasks.start_soon(be_a_client)
                await opened.wait()
            await tried.wait()
            async with start_server(ServerConfig(system=SystemSettings(data_dir=MEMORY, port=port)), drivers=drivers):
                await done.wait()
    assert failures >= 1


SECRETS = ("hunter2", "tok_1", "frag_1", "Bearer t")


def secretive(port: int, path: str = "/ws") -> str:
    return f"ws://me:hunter2@127.0.0.1:{port}{path}?token=tok_1"


async def test_a_runtime_and_its_errors_show_no_credentials() -> None:
    headers = {"Authorization": "Bearer t"}
    said = [repr(remote_runtime(secretive(1), headers=headers))]
    async with start_server(IN_MEMORY, drivers={"scripted": ScriptedDriver()}) as server:
        for url in (secretive(1), secretive(server.port, "/nope")):
            with anyio.fail_after(60), pytest.raises(ChannelClosed, match=r"Cannot connect to 127\.0\.0\.1:\d+/") as refused:
                async with create_agentx(remote_runtime(url, headers=headers)):
                    pass
            said.append(str(refused.value))
    for url in ("http://me:hunter2@h/?token=tok_1", "ws://me:hunter2@h:port/#frag_1", "ws://me:hunter2@["):
        with anyio.fail_after(60), pytest.raises(ConfigInvalid) as refused_url:
            async with create_agentx(remote_runtime(url, headers=headers)):
                pass
        said.append(str(refused_url.value))
    assert [text for text in said if any(secret in text for secret in SECRETS)] == []


async def test_a_session_known_from_its_events_alone_is_subscribed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "FIRST_DELAY_SECONDS", 0.01)
    subscribed, seen = anyio.Event(), list[object]()
    told = {"type": "text_delta", "category": "stream", "data": {"text": "a"}, "context": {"sessionId": "sess_1"}}
    others_reply = {"type": "x_response", "category": "response", "data": {"requestId": "another's"}}

    async def tell_and_drop(socket: ServerConnection) -> None:
        if seen:
            seen.append(json.loads(await socket.recv()))
            subscribed.set()
            await socket.wait_closed()
        else:
            seen.append("first")
            for event in (told, told, others_reply, {"type": "container_created", "context": {"containerId": "c1"}}):
                await socket.send(json.dumps(event))

    async with served_by(tell_and_drop) as url, create_agentx(remote_runtime(url)):
        await subscribed.wait()
    assert seen == ["first", {"type": "subscribe", "sessionId": "sess_1"}]


@pytest.mark.parametrize(
    ("kind", "reply", "after"),
    [
        # A session that was just made has no past that could be missed.
        ("session_create_request", {"__subscriptions": ["sess_1"]}, "0"),
        # What was sent is followed by events, whether or not the first of them arrived.
        ("message_send_request", {"sessionId": "sess_1", "cursor": "41"}, "41"),
        # Of a session that was only looked at, the past is not asked for.
        ("session_get_request", {"__subscriptions": ["sess_1"]}, None),
    ],
)
async def test_a_socket_that_drops_before_the_first_event_misses_nothing_that_was_asked_for(
    kind: str, reply: dict[str, object], after: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "FIRST_DELAY_SECONDS", 0.01)
    subscribed = anyio.Event()
    asked: list[dict[str, object]] = []
    connections = 0

    async def behave(socket: ServerConnection) -> None:
        nonlocal connections
        connections += 1
        text = await socket.recv()
        if connections == 1:
            request = json.loads(text)
            body = {"requestId": request["data"]["requestId"], **reply}
            name = kind.replace("_request", "_response")
            await socket.send(json.dumps({"type": name, "category": "response", "data": body}))
            return
        asked.append(json.loads(text))
        subscribed.set()
        await socket.wait_closed()

    async with served_by(behave) as url, create_agentx(remote_runtime(url)) as agentx:
        await agentx.request(kind, {"imageId": "img_1", "sessionId": "sess_1", "content": "hi"})
        await subscribed.wait()
    assert (asked[0]["type"], asked[0]["sessionId"], asked[0].get("afterCursor")) == ("subscribe", "sess_1", after)


async def test_what_no_server_takes_is_refused_before_it_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "FRAME_MAX_BYTES", 10_000)
    async with connected() as agentx:
        with pytest.raises(InputTooLarge, match="attachments"):
            await agentx.containers.create("x" * 10_000)
        await agentx.containers.create("c1")
