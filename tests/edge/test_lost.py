"""Requests, replies, sockets and Workers that are lost on their way: every accepted message is answered, and is told to be."""

import base64
import json
import random

import anyio
import pytest
from tests.edge.test_crash import CUT_OFF
from tests.edge.test_tools import calling, tool
from tests.support.answers import anthropic_text, message_end, message_start, stream, text_block
from tests.support.edge import EdgeServer
from tests.support.provider import Answer, ScriptedProvider, Stall, Wait
from tests.support.wire import Client19, Json, client, seqs
from websockets.asyncio.client import connect


def without_gaps(one: Client19, record: Json) -> bool:
    numbers = seqs(one, record["sessionId"])
    return bool(numbers) and numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("faults", [("before",), ("after",), ("before", "after")])
async def test_an_end_whose_request_or_reply_is_lost_is_stored_and_told_once_and_the_next_turn_runs(
    faults: tuple[str, ...], url: str, edge: EdgeServer, provider: ScriptedProvider
) -> None:
    gate = anyio.Event()
    provider.play(stream([message_start(), Wait(gate), *text_block(0, "one"), *message_end()]), anthropic_text("two"))
    async with client(url) as alice:
        record = await alice.image("c1")
        ids = {"imageId": record["imageId"]}
        sent = [await alice.request("message_send_request", **ids, content=said) for said in ("first", "second")]
        await anyio.to_thread.run_sync(edge.lose_folds, *faults)
        gate.set()
        ends = [(await alice.end_of(one["turnId"]))["data"]["outcome"] for one in sent]
        messages = (await alice.request("image_messages_request", **ids))["messages"]
        assert without_gaps(alice, record)
    assert ends == ["completed", "completed"]
    assert alice.types.count("turn_response") == 2
    assert [message["content"] for message in messages if message["role"] == "user"] == ["first", "second"]
    assert len(provider.requests) == 2


async def test_a_message_behind_a_turn_that_is_cut_off_twice_is_answered(
    edge: EdgeServer, url: str, provider: ScriptedProvider
) -> None:
    provider.play(CUT_OFF, CUT_OFF, anthropic_text("The second"))
    async with client(url) as alice:
        record = await alice.image("c1")
        ids = {"imageId": record["imageId"]}
        await alice.request("message_send_request", **ids, content="first")
        await alice.wait("text_delta")
        waiting = await alice.request("message_send_request", **ids, content="second")
        await anyio.to_thread.run_sync(edge.kill)
    await anyio.to_thread.run_sync(edge.start)
    with anyio.fail_after(60):
        await provider.wait_request(2)
    await anyio.to_thread.run_sync(edge.kill)
    await anyio.to_thread.run_sync(edge.start)
    async with client(url) as bob:
        await bob.send({"type": "subscribe", "sessionId": record["sessionId"], "afterCursor": "0"})
        end = await bob.end_of(waiting["turnId"])
        assert without_gaps(bob, record)
    assert end["data"]["outcome"] == "completed"
    assert [event["data"]["outcome"] for event in bob.events if event["type"] == "turn_response"] == ["failed", "completed"]


async def test_who_listens_to_an_object_that_restarts_hears_the_rest_of_the_turn(
    edge: EdgeServer, url: str, provider: ScriptedProvider
) -> None:
    gate = anyio.Event()
    pieces = text_block(0, "one ", "two ", "three")
    provider.play(stream([message_start(), *pieces[:2], Wait(gate), *pieces[2:], *message_end()]))
    async with client(url) as alice, client(url) as bob:
        record = await alice.image("c1")
        await bob.send({"type": "subscribe", "sessionId": record["sessionId"]})
        await bob.settle()
        sent = await alice.request("message_send_request", imageId=record["imageId"], content="hi")
        await bob.wait("text_delta")
        await anyio.to_thread.run_sync(edge.restart_object, url, "c1")
        gate.set()
        for one in (alice, bob):
            assert (await one.end_of(sent["turnId"]))["data"]["outcome"] == "completed"
            assert without_gaps(one, record)
        following = await alice.say(record["imageId"], "again")
        await bob.end_of(following["data"]["turnId"])
        assert without_gaps(bob, record)
    # The Worker has told the object in time that it is still there.
    assert len(provider.requests) == 2


@pytest.mark.parametrize("how", ["agent_interrupt_request", "message_send_request"])
async def test_a_turn_that_no_worker_runs_at_the_moment_is_interrupted(
    how: str, edge: EdgeServer, url: str, provider: ScriptedProvider
) -> None:
    provider.play(anthropic_text("Hello"))
    with edge.without_queue():
        async with client(url) as alice:
            record = await alice.image("c1")
            ids = {"imageId": record["imageId"]}
            edge.lose_accepted()
            assert (await alice.request("message_send_request", **ids, content="one"))["errorCode"] == "internal_error"
            mark = len(edge.log)
        # Its Worker has gone, and it is handed out, to nobody.
        await edge.bursts(mark, "alarm")
        async with client(url) as bob:
            await bob.send({"type": "subscribe", "sessionId": record["sessionId"], "afterCursor": "0"})
            sent = await bob.request(how, **ids, content="two", onBusy="interrupt")
            assert "error" not in sent, sent
            end = await bob.wait("turn_response")
            assert end["data"]["outcome"] == "interrupted"
            assert bob.types.count("interrupted") == 1
            assert without_gaps(bob, record)
            assert provider.requests == []
            if how == "agent_interrupt_request":
                assert (await bob.say(record["imageId"], "two"))["data"]["outcome"] == "completed"
    if how == "message_send_request":
        async with client(url) as carol:
            await carol.send({"type": "subscribe", "sessionId": record["sessionId"], "afterCursor": "0"})
            assert (await carol.end_of(sent["turnId"]))["data"]["outcome"] == "completed"
            assert without_gaps(carol, record)
    assert len(provider.requests) == 1


async def test_a_turn_is_handed_out_when_the_queue_can_be_reached_again(
    edge: EdgeServer, url: str, provider: ScriptedProvider
) -> None:
    provider.play(anthropic_text("Hello"))
    async with client(url) as bob:
        with edge.without_queue("reached"):
            async with client(url) as alice:
                record = await alice.image("c1")
                edge.lose_accepted()
                await alice.request("message_send_request", imageId=record["imageId"], content="one")
                mark = len(edge.log)
            # Logged at the end of an alarm that does not fail.
            await edge.bursts(mark, "alarm")
        await bob.send({"type": "subscribe", "sessionId": record["sessionId"], "afterCursor": "0"})
        assert (await bob.wait("turn_response"))["data"]["outcome"] == "completed"


async def test_who_waits_for_a_turn_that_no_worker_runs_hears_its_end_when_it_is_taken_back(
    edge: EdgeServer, url: str, provider: ScriptedProvider
) -> None:
    provider.play(anthropic_text("Hello"))
    with edge.without_queue():
        async with client(url) as alice:
            record = await alice.image("c1")
            kept = (await alice.say(record["imageId"], "kept"))["data"]["messageId"]
            edge.lose_accepted()
            await alice.request("message_send_request", imageId=record["imageId"], content="lost")
            mark = len(edge.log)
        await edge.bursts(mark, "alarm")
        async with client(url) as bob, connect(url) as carol:
            await bob.send({"type": "subscribe", "sessionId": record["sessionId"], "afterCursor": "0"})
            await bob.settle()
            params = {"imageId": record["imageId"], "messageId": kept}
            await carol.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "runtime.rewind", "params": params}))
            await bob.wait("session_rewound")
            ends = [event["data"]["outcome"] for event in bob.events if event["type"] == "turn_response"]
    assert ends == ["completed", "interrupted"]


@pytest.mark.parametrize("how", ["image_delete_request", "agent_destroy_all_request"])
async def test_who_waits_for_a_turn_that_is_deleted_hears_its_end(how: str, url: str, provider: ScriptedProvider) -> None:
    provider.play(stream([message_start(), *text_block(0, "Half")[:2], Stall()]))
    async with client(url) as alice, client(url) as bob:
        record = await alice.image("c1")
        sent = await alice.request("message_send_request", imageId=record["imageId"], content="hi")
        await alice.wait("text_delta")
        assert "error" not in await bob.request(how, imageId=record["imageId"], containerId="c1")
        end = await alice.end_of(sent["turnId"])
    assert end["data"]["outcome"] == "interrupted"


async def test_who_comes_while_a_turn_goes_on_that_has_waited_hears_all_of_it(
    url: str, edge: EdgeServer, provider: ScriptedProvider
) -> None:
    gate = anyio.Event()
    async with client(url) as alice, client(url) as bob:
        sent = await calling(alice, edge, provider, "goes-on", tool("screen", "client"))
        waiting = (await alice.wait("tool_waiting"))["data"]
        provider.play(stream([message_start(), Wait(gate), *text_block(0, "Done"), *message_end()]))
        await alice.wait("turn_parked")
        which = {"waitId": waiting["waitId"], "fingerprint": waiting["fingerprint"]}
        await alice.request("tool_answer_request", **which, decision="answer", result="42")
        await alice.wait("turn_resumed")
        await bob.send({"type": "subscribe", "sessionId": sent["sessionId"], "afterCursor": "0"})
        await bob.wait("turn_resumed")
        gate.set()
        await bob.end_of(sent["turnId"])
        assert without_gaps(bob, sent)
    assert {"user_message", "tool_waiting", "tool_answered"} <= set(bob.types)


async def test_a_picture_that_fills_a_message_is_answered_and_a_larger_one_is_refused(
    url: str, provider: ScriptedProvider
) -> None:
    provider.play(anthropic_text("A picture of noise"))
    noise = random.Random(1)

    def picture(size: int) -> list[Json]:
        return [{"type": "image", "data": base64.b64encode(noise.randbytes(size)).decode(), "mediaType": "image/png"}]

    async with client(url) as alice:
        image_id = (await alice.image("c1"))["imageId"]
        assert (await alice.say(image_id, picture(1_040_000)))["data"]["outcome"] == "completed"
        # Fewer characters than bytes are allowed, and more bytes.
        for content in (picture(1_200_000), "猫" * 600_000):
            answer = await alice.request("message_send_request", imageId=image_id, content=content)
            assert answer["errorCode"] == "input_too_large"
        messages = (await alice.request("image_messages_request", imageId=image_id))["messages"]
    assert [message["subtype"] for message in messages] == ["user", "assistant"]


async def test_a_turn_whose_results_are_too_large_to_be_stored_keeps_a_part_of_them(
    url: str, edge: EdgeServer, provider: ScriptedProvider
) -> None:
    spec = tool("dice", "http", entry=f"GET http://127.0.0.1:{edge.provider_port}/dice", effect="read")
    noise = base64.b85encode(random.Random(1).randbytes(3_000_000))
    thrown = Answer(content_type="application/json", steps=(b'"', noise.replace(b'"', b"'").replace(b"\\", b"/"), b'"'))
    async with client(url) as alice:
        sent = await calling(alice, edge, provider, "dice", spec, thrown)
        end = await alice.end_of(sent["turnId"])
        messages = (await alice.request("image_messages_request", imageId=sent["imageId"]))["messages"]
    assert end["data"]["outcome"] == "completed"
    (result,) = (message["toolResult"]["output"] for message in messages if message["subtype"] == "tool-result")
    assert result["value"].endswith("[cut off: the turn was too large to be stored]")


async def test_a_long_history_is_read_whole(url: str, provider: ScriptedProvider) -> None:
    provider.play(anthropic_text("yes"))
    async with client(url) as alice:
        image_id = (await alice.image("c1"))["imageId"]
        sent = [await alice.request("message_send_request", imageId=image_id, content=str(number)) for number in range(5)]
        for start in range(5, 105, 20):
            sent += [
                await alice.request("message_send_request", imageId=image_id, content=str(number))
                for number in range(start, start + 20)
            ]
            await alice.end_of(sent[-1]["turnId"])
        messages = (await alice.request("image_messages_request", imageId=image_id))["messages"]
    assert [message["content"] for message in messages if message["role"] == "user"] == [str(number) for number in range(105)]
