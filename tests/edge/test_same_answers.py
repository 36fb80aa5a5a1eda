"""Bad input at the edge gets the answers that a server gives."""

import json
from typing import Any

import anyio
import pytest
from tests.compat.test_bad_input import FRAMES, wrong_data
from tests.compat.test_checklist_connection import NOISE
from tests.edge.test_tools import calling, tool
from tests.faults.shapes import ANTHROPIC, OPENAI, Dialect, Shape, broken_streams, odd_answers, refusals
from tests.support.answers import anthropic_text, message_start, stream, text_block
from tests.support.edge import EdgeServer
from tests.support.provider import Answer, ScriptedProvider, Stall
from tests.support.serving import serving
from tests.support.wire import Client19, Json, client
from websockets.asyncio.client import ClientConnection, connect

EDGE_COMMANDS = (
    *("container_create", "container_get", "container_list", "image_create", "image_get", "image_list", "image_run"),
    *("image_stop", "image_update", "image_delete", "image_messages", "agent_get", "agent_list", "agent_destroy"),
    *("agent_destroy_all", "agent_interrupt", "message_send", "tool_waits", "tool_answer"),
)
FRAME_MAX_BYTES = 4 * 1024 * 1024


async def answers(one: Client19, frame: str) -> list[tuple[str, Any]]:
    """What a frame is answered with: types and codes of everything that is heard up to the next request's reply."""
    await one.settle()
    mark = len(one.events)
    await one.socket.send(frame)
    await one.settle()
    return [(event["type"], event["data"].get("errorCode") or event["data"].get("code")) for event in one.events[mark:]]


async def test_broken_frames_and_noise_are_answered_as_by_a_server(url: str) -> None:
    async with serving() as server, client(server.url) as here, client(url) as there:
        corpus = [frame for frame in (*FRAMES.values(), *NOISE) if len(frame) <= FRAME_MAX_BYTES]
        pairs = [(frame[:80], await answers(there, frame), await answers(here, frame)) for frame in corpus]
    differing = [pair for pair in pairs if pair[1] != pair[2]]
    assert not differing, "\n".join(map(str, differing))


@pytest.mark.parametrize("name", EDGE_COMMANDS)
async def test_a_command_with_a_member_of_the_wrong_type_is_refused(url: str, name: str) -> None:
    async with client(url) as alice:
        accepted = [
            what
            for what, data in wrong_data(name)
            # Only a server sets it.
            if "__ignored" not in data and (await alice.request(f"{name}_request", **data)).get("errorCode") != "invalid_input"
        ]
    assert accepted == []


async def test_what_a_message_wants_beside_a_running_turn_is_done_or_refused(url: str, provider: ScriptedProvider) -> None:
    provider.play(stream([message_start(), *text_block(0, "Half")[:2], Stall()]), *[anthropic_text("Said")] * 2)
    async with client(url) as alice:
        record = await alice.image("c1")
        ids = {"imageId": record["imageId"]}
        first = await alice.request("message_send_request", **ids, content="one")
        await alice.wait("text_delta")
        waiting = await alice.request("message_send_request", **ids, content="two")
        refusals: list[tuple[Json, str]] = [
            ({**ids, "onBusy": "reject"}, "agent_busy"),
            ({**ids, "onBusy": "later"}, "invalid_input"),
            ({**ids, "options": {"model": "x"}}, "invalid_input"),
            ({**ids, "output": {"schema": {}}}, "invalid_input"),
            ({**ids, "sessionId": "sess_of_somebody"}, "session_not_found"),
            ({"sessionId": "sess_of_nobody"}, "session_not_found"),
        ]
        for data, code in refusals:
            assert (await alice.request("message_send_request", content="no", **data))["errorCode"] == code, data
        # To the session alone, which is the image's.
        second = await alice.request(
            "message_send_request", sessionId=record["sessionId"], content="instead", onBusy="interrupt"
        )
        # One that waits was acknowledged, so it is answered before.
        ends = [(await alice.end_of(sent["turnId"]))["data"]["outcome"] for sent in (first, waiting, second)]
        messages = (await alice.request("image_messages_request", **ids))["messages"]
    assert ends == ["interrupted", "completed", "completed"]
    assert [message["content"] for message in messages if message["role"] == "user"] == ["one", "two", "instead"]


@pytest.mark.parametrize("waits_for_somebody", [False, True])
async def test_every_turn_of_an_agent_that_is_stopped_has_its_end(
    url: str, edge: EdgeServer, provider: ScriptedProvider, waits_for_somebody: bool
) -> None:
    async with client(url) as alice, client(url) as bob:
        if waits_for_somebody:
            first = await calling(alice, edge, provider, "stopped-parked", tool("screen", "client"))
            ids = {"imageId": first["imageId"]}
            await alice.wait("turn_parked")
        else:
            provider.play(stream([message_start(), *text_block(0, "Half")[:2], Stall()]))
            ids = {"imageId": (await alice.image("c1"))["imageId"]}
            first = await alice.request("message_send_request", **ids, content="one")
            await alice.wait("text_delta")
        waiting = [await alice.request("message_send_request", **ids, content="wait", onParked="queue") for _ in range(2)]
        assert "error" not in await bob.request("image_stop_request", **ids)
        ends = [(await alice.end_of(sent["turnId"]))["data"]["outcome"] for sent in (first, *waiting)]
        provider.play(anthropic_text("Again"))
        following = await alice.say(ids["imageId"], "and now?")
    assert (ends, following["data"]["outcome"]) == (["interrupted"] * 3, "completed")


def failing(wire: Dialect) -> dict[str, Shape]:
    """What can go wrong with a provider, but what only a second call would mend: nothing is tried again here."""
    return {
        name: shape
        for name, shape in {**refusals(wire), **broken_streams(wire), **odd_answers(wire)}.items()
        if shape.where in ("http", "stalled")
        and len(shape.plays) == 1
        # Its limit of calls is not the one of those tests.
        and name != "calls without end"
    }


@pytest.mark.parametrize(
    ("wire", "patient", "impatient"), [(ANTHROPIC, "test", "impatient"), (OPENAI, "chat", "chat-impatient")]
)
async def test_a_provider_that_fails_or_stalls_is_told_as_by_a_server(
    wire: Dialect, patient: str, impatient: str, url: str, provider: ScriptedProvider
) -> None:
    wrong = []
    for name, shape in failing(wire).items():
        provider.play(*shape.plays)
        async with client(url) as alice:
            # A busy machine may be silent for a second as well.
            used = impatient if shape.where == "stalled" else patient
            image_id = (await alice.image("c1", model=f"{used}/model"))["imageId"]
            end = (await alice.say(image_id, "hi"))["data"]
            codes = [event["data"]["code"] for event in alice.events if event["type"] == "error_occurred"]
            said = "".join(event["data"]["text"] for event in alice.events if event["type"] == "text_delta")
        expected = ([] if shape.code is None else [shape.code], "completed" if shape.code is None else "failed", shape.text)
        if (codes, end["outcome"], said) != expected:
            wrong.append((name, (codes, end["outcome"], said), expected))
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (Answer(status=400, content_type="text/plain", steps=(b"x" * 100_000, Stall())), "provider_bad_request"),
        (stream([message_start(), *[b"data: " + b"x" * 1_000_000 + b"\n"] * 5, Stall()]), "provider_protocol_error"),
    ],
)
async def test_an_error_or_an_event_without_end_is_not_read_to_the_end(
    answer: Answer, code: str, url: str, provider: ScriptedProvider
) -> None:
    provider.play(answer)
    async with client(url) as alice:
        image_id = (await alice.image("c1", model="test/model"))["imageId"]
        await alice.say(image_id, "hi")
        codes = [event["data"]["code"] for event in alice.events if event["type"] == "error_occurred"]
    # Else the silence after it would end the turn, as a timeout.
    assert codes == [code]


ODD_IDS: tuple[Any, ...] = (None, {}, 1.5, True, "", 2**60, "x" * 2_000)
RPC_FRAMES = (
    *("not json", '"text"', "5", "null", "{", "[]", "[1]", "[{}]", '{"jsonrpc":"2.0"}', '{"jsonrpc":"2.0","id":1}'),
    *('{"jsonrpc":"2.0","id":1,"result":{}}', '{"jsonrpc":"2.0","id":1,"error":{}}', '{"jsonrpc":"2.0","method":"llm.list"}'),
    *(json.dumps({"jsonrpc": "2.0", "id": odd, "method": "llm.list"}) for odd in ODD_IDS),
    *(json.dumps({"jsonrpc": "2.0", "id": 1, "method": odd}) for odd in (5, "", None, "m" * 3_000, "__proto__", "constructor")),
    *(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "llm.list", "params": odd}) for odd in ([1], "text", 5)),
    json.dumps([{"jsonrpc": "2.0", "id": number, "method": "nothing"} for number in range(100)]),
    json.dumps({"jsonrpc": "2.0", "id": 1, "method": "image.get", "params": {"imageId": "i" * 2_000_000}}),
)
RPC_METHODS = (
    *("image.get", "image.update", "image.delete", "image.run", "image.stop", "image.messages", "instance.get"),
    *("instance.destroy", "instance.interrupt", "runtime.rewind", "os.list", "llm.get", "message.send", "agent.get"),
)
RPC_PARAMS: tuple[Json, ...] = (
    *({}, {"imageId": None}, {"imageId": 5}, {"imageId": "img_x"}, {"imageId": ["a"]}, {"instanceId": 7}),
    *({"instanceId": "inst_x"}, {"imageId": "img_x", "updates": []}, {"imageId": "img_x", "content": 5}, {"content": "hi"}),
    *({"imageId": "img_x", "content": []}, {"messageId": 3}, {"id": 5}, {"imageId": "img_x", "updates": {"name": 5}}),
)


async def rpc_answers(socket: ClientConnection, frame: str) -> list[tuple[Any, ...]]:
    """Ids and codes of everything that a frame is answered with, and the types of events."""
    await socket.send(frame)
    await socket.send('{"jsonrpc":"2.0","id":"mark","method":"nothing"}')
    heard: list[tuple[Any, ...]] = []
    with anyio.fail_after(60):
        async for text in socket:
            said = json.loads(text)
            if said.get("id") == "mark":
                break
            if said.get("method") == "stream.event":
                heard.append((said["params"]["event"]["type"],))
            elif "jsonrpc" in said:
                error = said.get("error") or {}
                heard.append((said["id"], error.get("code"), error.get("data", {}).get("code")))
    return heard


async def test_broken_requests_of_clients_of_2x_are_answered_as_by_a_server(url: str) -> None:
    calls = ({"jsonrpc": "2.0", "id": 7, "method": one, "params": params} for one in RPC_METHODS for params in RPC_PARAMS)
    corpus = [*RPC_FRAMES, *map(json.dumps, calls)]
    async with serving() as server, connect(server.url) as here, connect(url) as there:
        for socket in (here, there):
            # From then on noise is answered in the dialect of 2.x.
            await rpc_answers(socket, '{"jsonrpc":"2.0","id":0,"method":"nothing"}')
        pairs = [(frame[:90], await rpc_answers(there, frame), await rpc_answers(here, frame)) for frame in corpus]
    differing = [pair for pair in pairs if pair[1] != pair[2]]
    assert not differing, "\n".join(map(str, differing))
