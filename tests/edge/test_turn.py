"""A turn at the edge: what a client hears, and what it costs the object."""

from collections import Counter
from pathlib import Path

import anyio
from tests.support.answers import anthropic_text, message_end, message_start, openai_text, stream, text_block
from tests.support.edge import EdgeServer
from tests.support.provider import Delay, ScriptedProvider, Stall, Wait
from tests.support.wire import Client19, client, seqs

from agentvm.runtime.broadcaster import MAX_SUBSCRIPTIONS

WAITED_SECONDS = 0.4


def texts(one: Client19) -> str:
    return "".join(event["data"]["text"] for event in one.events if event["type"] == "text_delta")


async def test_a_message_is_answered_and_the_history_holds_both(url: str, provider: ScriptedProvider) -> None:
    provider.play(anthropic_text("Hello", " world"))
    async with client(url) as alice:
        record = await alice.image("c1", systemPrompt="be brief")
        end = await alice.say(record["imageId"], "hi")
        messages = (await alice.request("image_messages_request", imageId=record["imageId"]))["messages"]
    assert end["data"]["outcome"] == "completed"
    assert [(message["role"], message["content"]) for message in messages] == [
        ("user", "hi"),
        ("assistant", [{"type": "text", "text": "Hello world"}]),
    ]
    assert provider.requests[0].json()["system"] == "be brief"


async def test_an_openai_compatible_provider_is_told_the_history(url: str, provider: ScriptedProvider) -> None:
    provider.play(openai_text("Good"))
    async with client(url) as alice:
        image_id = (await alice.image("c1", model="chat/gpt"))["imageId"]
        for said in ("one", "two"):
            await alice.say(image_id, said)
    sent = provider.requests[1].json()
    assert sent["model"] == "gpt"
    assert sent["messages"] == [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "Good"},
        {"role": "user", "content": "two"},
    ]


async def test_a_turn_of_100_deltas_is_two_requests_and_four_rows_however_long_the_model_takes(
    url: str, edge: EdgeServer, provider: ScriptedProvider
) -> None:
    pieces = text_block(0, *(f"{number} " for number in range(100)))
    provider.play(stream([message_start(), Delay(WAITED_SECONDS), *pieces, *message_end()]))
    async with client(url) as alice:
        image_id = (await alice.image("c1"))["imageId"]
        mark = len(edge.log)
        await alice.say(image_id, "first, which starts the agent")
        # A client hears the end of a turn before the object has logged that it kept it.
        await edge.bursts(mark, "fold")
        mark = len(edge.log)
        await alice.say(image_id, "count")
        accepted, folded = await edge.bursts(mark, "fold")
    assert (accepted.what, folded.what) == ("accept", "fold")
    assert accepted.rows + folded.rows <= 4
    # The object's own log: asleep from the one to the other, all the while that the model was waited for.
    assert folded.at - accepted.at >= WAITED_SECONDS * 1000
    assert accepted.ms + folded.ms < WAITED_SECONDS * 1000 / 2
    assert alice.types.count("text_delta") == 200


async def test_a_provider_that_stalls_ends_the_turn_as_failed_and_keeps_the_text(url: str, provider: ScriptedProvider) -> None:
    provider.play(stream([message_start(), *text_block(0, "Half")[:2], Stall()]))
    async with client(url) as alice:
        image_id = (await alice.image("c1", model="impatient/model"))["imageId"]
        end = await alice.say(image_id, "hi")
        error = await alice.wait("error_occurred")
        messages = (await alice.request("image_messages_request", imageId=image_id))["messages"]
    assert end["data"]["outcome"] == "failed"
    assert (error["data"]["code"], error["data"]["recoverable"]) == ("timeout", True)
    assert [message["subtype"] for message in messages] == ["user", "assistant", "error"]


async def test_messages_sent_during_a_turn_run_after_it_in_order(url: str, provider: ScriptedProvider) -> None:
    gate = anyio.Event()
    provider.play(stream([message_start(), Wait(gate), *text_block(0, "one"), *message_end()]), anthropic_text("more"))
    async with client(url) as alice:
        image_id = (await alice.image("c1"))["imageId"]
        sent = [await alice.request("message_send_request", imageId=image_id, content=said) for said in ("a", "b", "c")]
        gate.set()
        for reply in sent:
            await alice.end_of(reply["turnId"])
        messages = (await alice.request("image_messages_request", imageId=image_id))["messages"]
    assert [message["content"] for message in messages if message["role"] == "user"] == ["a", "b", "c"]
    assert [message["role"] for message in messages] == ["user", "assistant"] * 3
    numbers = seqs(alice, messages and alice.subscribed[0])
    assert numbers == sorted(set(numbers))


async def test_a_second_device_hears_everything_and_is_paid_for_only_while_it_listens(
    url: str, edge: EdgeServer, provider: ScriptedProvider
) -> None:
    gate = anyio.Event()
    half = text_block(0, "one ", "two ", "three")
    provider.play(stream([message_start(), *half[:2], Wait(gate), *half[2:], *message_end()]))
    async with client(url) as alice, client(url) as bob:
        record = await alice.image("c1")
        sent = await alice.request("message_send_request", imageId=record["imageId"], content="hi")
        await alice.wait("text_delta")
        mark = len(edge.log)
        # Bob comes in the middle, and asks from the beginning.
        await bob.send({"type": "subscribe", "sessionId": record["sessionId"], "afterCursor": "0"})
        await bob.wait("text_delta")
        gate.set()
        for one in (alice, bob):
            await one.end_of(sent["turnId"])
        counted = Counter(burst.what for burst in await edge.bursts(mark, "fold"))
    assert texts(bob) == texts(alice) == "one two three"
    assert seqs(bob, record["sessionId"]) == seqs(alice, record["sessionId"])
    assert counted["message"] <= 4


async def test_a_cursor_replays_exactly_the_events_after_it(url: str, provider: ScriptedProvider) -> None:
    provider.play(anthropic_text("a", "b", "c"))
    async with client(url) as alice:
        record = await alice.image("c1")
        for said in ("one", "two"):
            await alice.say(record["imageId"], said)
        heard = [event for event in alice.events if "cursor" in event]
        middle = int(heard[len(heard) // 2]["cursor"])
    async with client(url) as bob:
        await bob.send({"type": "subscribe", "sessionId": record["sessionId"], "afterCursor": str(middle)})
        await bob.settle()
        replayed = [event for event in bob.events if "cursor" in event]
    assert [(event["type"], event["data"], event["cursor"]) for event in replayed] == [
        (event["type"], event["data"], event["cursor"]) for event in heard if int(event["cursor"]) > middle
    ]


async def test_the_same_message_sent_again_begins_no_second_turn(url: str, provider: ScriptedProvider) -> None:
    provider.play(anthropic_text("once"))
    async with client(url) as alice:
        image_id = (await alice.image("c1"))["imageId"]
        sent = [
            await alice.request("message_send_request", imageId=image_id, content="hi", clientMessageId="mine")
            for _ in range(2)
        ]
        await alice.end_of(sent[0]["turnId"])
    assert sent[0]["turnId"] == sent[1]["turnId"]
    assert len(provider.requests) == 1


async def test_another_device_can_stop_a_turn(url: str, provider: ScriptedProvider) -> None:
    provider.play(stream([message_start(), *text_block(0, "Half")[:2], Stall()]))
    async with client(url) as alice, client(url) as bob:
        image_id = (await alice.image("c1"))["imageId"]
        sent = await alice.request("message_send_request", imageId=image_id, content="hi")
        await alice.wait("text_delta")
        assert "error" not in await bob.request("agent_interrupt_request", imageId=image_id)
        end = await alice.end_of(sent["turnId"])
    assert end["data"]["outcome"] == "interrupted"


async def test_an_answer_with_more_events_than_are_reserved_is_told_whole_and_without_gaps(
    url: str, edge: EdgeServer, provider: ScriptedProvider
) -> None:
    pieces = text_block(0, *(f"{number} " for number in range(400)))
    provider.play(stream([message_start(), *pieces, *message_end()]))
    async with client(url) as alice:
        record = await alice.image("c1")
        mark = len(edge.log)
        await alice.say(record["imageId"], "count")
        counted = Counter(burst.what for burst in await edge.bursts(mark, "fold"))
    assert texts(alice) == "".join(f"{number} " for number in range(400))
    assert counted["reserve"] == 1
    numbers = seqs(alice, record["sessionId"])
    assert numbers == list(range(1, len(numbers) + 1))


async def test_a_client_that_comes_back_in_the_middle_of_a_turn_goes_on_where_it_was(
    url: str, provider: ScriptedProvider
) -> None:
    gate = anyio.Event()
    half = text_block(0, "one ", "two ", "three")
    provider.play(stream([message_start(), *half[:2], Wait(gate), *half[2:], *message_end()]))
    async with client(url) as alice, client(url) as bob:
        record = await alice.image("c1")
        await bob.send({"type": "subscribe", "sessionId": record["sessionId"]})
        await bob.settle()
        await alice.request("message_send_request", imageId=record["imageId"], content="hi")
        await bob.wait("text_delta")
        heard = seqs(bob, record["sessionId"])
        async with client(url) as again:
            await again.send({"type": "subscribe", "sessionId": record["sessionId"], "afterCursor": str(heard[-1])})
            await again.settle()
            gate.set()
            await again.wait("turn_response")
            assert "resync_required" not in again.types
            following = seqs(again, record["sessionId"])
        assert heard + following == list(range(1, heard[-1] + len(following) + 1))


async def test_no_object_is_awake_while_a_model_is_waited_for(edge: EdgeServer, tmp_path: Path) -> None:
    """By its own log: workerd takes an object out of memory when it was asked nothing for ten seconds."""
    async with edge.another(tmp_path) as patient, patient.provider() as provider, client(patient.new_url()) as alice:
        provider.play(stream([message_start(), Delay(14), *text_block(0, "late"), *message_end()]))
        image_id = (await alice.image("slept"))["imageId"]
        mark = len(patient.log)
        await alice.say(image_id, "hi")
        accepted, *_, folded = await patient.bursts(mark, "fold")
        woken = [burst for burst in patient.log[mark:] if burst.what == "woke" and accepted.at < burst.at <= folded.at]
    assert folded.at - accepted.at >= 13_000
    assert woken


async def test_a_socket_hears_as_many_sessions_as_at_a_server_and_no_more(url: str, provider: ScriptedProvider) -> None:
    provider.play(anthropic_text("Hello"))
    async with client(url) as alice, client(url) as bob:
        record = await alice.image("c1")
        place = record["sessionId"][len("sess_") :][:16]
        for start in range(0, MAX_SUBSCRIPTIONS, 1_000):
            for number in range(start, start + 1_000):
                await bob.socket.send(f'{{"type":"subscribe","sessionId":"sess_{place}{number}"}}')
            await bob.settle()
        await bob.send({"type": "subscribe", "sessionId": record["sessionId"]})
        await bob.settle()
        await alice.say(record["imageId"], "unheard")
        await bob.send({"type": "unsubscribe", "sessionId": f"sess_{place}0"})
        await bob.send({"type": "subscribe", "sessionId": record["sessionId"]})
        await bob.settle()
        heard = await alice.say(record["imageId"], "heard")
        await bob.end_of(heard["data"]["turnId"])
    assert [event["data"]["content"] for event in bob.events if event["type"] == "user_message"] == ["heard"]
