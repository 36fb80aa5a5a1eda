"""A crash in the middle of a turn: everything acknowledged is there, and the turn ends once."""

import anyio
from tests.support.answers import anthropic_text, message_start, stream, text_block
from tests.support.edge import EdgeServer
from tests.support.provider import ScriptedProvider, Stall
from tests.support.wire import Client19, Json, client, seqs

CUT_OFF = stream([message_start(), *text_block(0, "Half")[:2], Stall()])


async def crash_during_a_turn(edge: EdgeServer, url: str, record: Json | None = None) -> Json:
    """Sends a message, hears a piece of its answer, and kills workerd with every Worker and object."""
    async with client(url) as alice:
        record = record or await alice.image("c1")
        await alice.request("message_send_request", imageId=record["imageId"], content="hi")
        await alice.wait("text_delta")
        await anyio.to_thread.run_sync(edge.kill)
    await anyio.to_thread.run_sync(edge.start)
    return record


async def ends(bob: Client19, record: Json) -> Json:
    """Hears the session from its beginning until a turn of it has ended."""
    await bob.send({"type": "subscribe", "sessionId": record["sessionId"], "afterCursor": "0"})
    return await bob.wait("turn_response")


async def test_a_turn_whose_worker_died_is_run_once_more_and_ends_once(
    edge: EdgeServer, url: str, provider: ScriptedProvider
) -> None:
    provider.play(CUT_OFF, anthropic_text("Whole"))
    record = await crash_during_a_turn(edge, url)
    async with client(url) as bob:
        end = await ends(bob, record)
        messages = (await bob.request("image_messages_request", imageId=record["imageId"]))["messages"]
        await bob.settle()
        assert bob.types.count("turn_response") == 1
        numbers = seqs(bob, record["sessionId"])
    # Who was away hears all of it: no number is left out.
    assert numbers == list(range(1, len(numbers) + 1))
    assert "resync_required" not in bob.types
    assert bob.types.index("user_message") < bob.types.index("turn_resumed") < bob.types.index("assistant_message")
    assert end["data"]["outcome"] == "completed"
    assert [message["content"] for message in messages] == ["hi", [{"type": "text", "text": "Whole"}]]
    assert len(provider.requests) == 2


async def test_a_turn_that_is_cut_off_twice_ends_as_failed_and_the_next_one_has_two_runs_too(
    edge: EdgeServer, url: str, provider: ScriptedProvider
) -> None:
    provider.play(CUT_OFF)
    record = await crash_during_a_turn(edge, url)
    with anyio.fail_after(60):
        await provider.wait_request(2)
    async with client(url) as alice:
        sent = await alice.request("message_send_request", imageId=record["imageId"], content="are you there?")
    for requests in (3, 4):
        await anyio.to_thread.run_sync(edge.kill)
        await anyio.to_thread.run_sync(edge.start)
        with anyio.fail_after(60):
            await provider.wait_request(requests)
        provider.play(anthropic_text("Here again"))
    async with client(url) as bob:
        end = await ends(bob, record)
        assert end["data"]["outcome"] == "failed"
        assert (await bob.end_of(sent["turnId"]))["data"]["outcome"] == "completed"
        messages = (await bob.request("image_messages_request", imageId=record["imageId"]))["messages"]
        numbers = seqs(bob, record["sessionId"])
    assert [message["subtype"] for message in messages] == ["user", "error", "user", "assistant"]
    assert numbers == list(range(1, len(numbers) + 1))


async def test_who_has_heard_a_part_of_the_lost_run_hears_everything_after_it_once(
    edge: EdgeServer, url: str, provider: ScriptedProvider
) -> None:
    provider.play(CUT_OFF, anthropic_text("Whole"))
    async with client(url) as alice:
        record = await alice.image("c1")
        await alice.request("message_send_request", imageId=record["imageId"], content="hi")
        await alice.wait("text_delta")
        heard = seqs(alice, record["sessionId"])
        await anyio.to_thread.run_sync(edge.kill)
    await anyio.to_thread.run_sync(edge.start)
    async with client(url) as bob:
        await bob.send({"type": "subscribe", "sessionId": record["sessionId"], "afterCursor": str(heard[-1])})
        await bob.wait("turn_response")
        following = seqs(bob, record["sessionId"])
        assert "".join(event["data"]["text"] for event in bob.events if event["type"] == "text_delta") == "Whole"
    assert heard + following == list(range(1, heard[-1] + len(following) + 1))
