import json
from typing import Any

import anyio
import pytest
from tests.gateways.langgraph.fixtures import ASKING, client_at, converse, interrupted_by, texts
from tests.support.relay import relaying
from tests.support.serving import serving
from websockets.asyncio.client import ClientConnection, connect

from agentvm.gateways.langgraph.thread_socket import frames_of

SUBSCRIBED = {"id": 1, "method": "subscription.subscribe", "params": {"channels": ["lifecycle"]}}


async def test_the_official_client_follows_a_thread_over_a_socket() -> None:
    """A text, a tool, an approval and a failure."""
    async with serving(converse, tools=ASKING) as served, client_at(served.port) as client:
        async with client.threads.stream(assistant_id="default", transport="websocket") as thread:
            await thread.run.start(input={"messages": "tool"})
            said = [message async for message in thread.messages]
            assert [await message.text for message in said] == ["", "It is 2"]
            assert texts(await thread.output)[-1] == "It is 2"
        async with client.threads.stream(assistant_id="default", transport="websocket") as thread:
            await thread.run.start(input={"messages": "ask"})
            assert len([message async for message in thread.messages]) == 1
            assert thread.interrupts[0]["value"]["action_requests"][0]["name"] == "current_time"
            await thread.run.respond({"decisions": [{"type": "approve"}]})
            assert texts(await thread.output)[-1] == "It is 2"
        async with client.threads.stream(assistant_id="default", transport="websocket") as thread:
            await thread.run.start(input={"messages": "fail"})
            with pytest.raises(RuntimeError, match="busy"):
                await thread.output


async def test_the_official_client_goes_on_after_a_lost_socket() -> None:
    lost = anyio.Event()
    async with serving(interrupted_by(lost)) as served, relaying(served.port, (b'"one ', lost)) as relay:
        async with client_at(relay.port) as client:
            async with client.threads.stream(assistant_id="default", transport="websocket") as thread:
                await thread.run.start(input={"messages": "slow"})
                (said,) = [message async for message in thread.messages]
                assert await said.text == "one two"
        assert relay.cuts == []
        assert len(served.model.prompts) == 1


async def ask(socket: ClientConnection, frame: object) -> Any:
    await socket.send(frame if isinstance(frame, str) else json.dumps(frame))
    return await read(socket, "success", "error")


async def read(socket: ClientConnection, *kinds: str) -> Any:
    with anyio.fail_after(60):
        while True:
            frame = json.loads(await socket.recv())
            if frame["type"] in kinds:
                return frame


async def test_frames_are_answered_and_wrong_ones_refused_in_the_shape_of_the_protocol() -> None:
    async with serving(converse) as served:
        url = f"{served.url.removesuffix('/ws')}/langgraph/threads/mine/stream/events"
        async with connect(url) as socket:
            unknown = await ask(socket, SUBSCRIBED)
            assert (unknown["type"], unknown["id"], unknown["message"]) == ("error", 1, "Thread not found: mine")
            assert (await ask(socket, "no json"))["id"] is None
            assert (await ask(socket, {"id": 2, "method": "nope"}))["type"] == "error"
            params = {"assistant_id": "default", "input": {"messages": "hi"}}
            started = await ask(socket, {"id": 3, "method": "run.start", "params": params})
            assert (started["type"], started["id"]) == ("success", 3)
            followed = await ask(socket, {**SUBSCRIBED, "id": 4})
            events = [(await read(socket, "event"))["params"]["data"]["event"] for _ in range(2)]
            assert events == ["running", "completed"]
            ended = {"id": 5, "method": "subscription.unsubscribe", "params": followed["result"]}
            assert (await ask(socket, ended))["type"] == "success"
            assert (await ask(socket, {"id": 6, "method": "state.get"}))["result"]["values"]["messages"]


def test_a_heartbeat_is_no_frame() -> None:
    assert list(frames_of(b": \n\n")) == []
    assert list(frames_of(b'id: 1\nevent: x\ndata: {"a":1}\n\nid: 2\ndata: {}\n\n')) == ['{"a":1}', "{}"]
