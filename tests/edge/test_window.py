"""Long conversations at the edge: a model is told what it can read, and a Worker reads what it can hold."""

from typing import Any

from tests.support.answers import anthropic_text, openai_text
from tests.support.provider import ScriptedProvider
from tests.support.wire import client


async def test_the_oldest_exchanges_are_dropped_when_a_model_cannot_read_them_all(url: str, provider: ScriptedProvider) -> None:
    provider.play(*[openai_text("Good")] * 4)
    async with client(url) as alice:
        # Of a model that is not known, whose window is taken to have 32,000 tokens.
        image_id = (await alice.image("c1", model="chat/model"))["imageId"]
        for number in range(4):
            await alice.say(image_id, f"{number} {'word ' * 8_000}")
        messages = (await alice.request("image_messages_request", imageId=image_id))["messages"]
    bodies: list[Any] = [request.json() for request in provider.requests]
    told = [[message["content"][0] for message in body["messages"]] for body in bodies]
    assert told == [["0"], ["0", "G", "1"], ["1", "G", "2"], ["2", "G", "3"]]
    assert len(messages) == 8


async def test_messages_that_pack_well_are_not_all_unpacked_at_once(url: str, provider: ScriptedProvider) -> None:
    provider.play(*[anthropic_text("Good")] * 7)
    async with client(url) as alice:
        image_id = (await alice.image("c1"))["imageId"]
        for number in range(7):
            await alice.say(image_id, f"{number}{'a' * 1_400_000}")
        messages = (await alice.request("image_messages_request", imageId=image_id))["messages"]
        mark = len(alice.events)
        record = (await alice.request("image_get_request", imageId=image_id))["record"]
        await alice.send({"type": "subscribe", "sessionId": record["sessionId"], "afterCursor": "0"})
        await alice.settle()
    said = [message["content"][0] for message in messages if message["role"] == "user"]
    assert said == ["2", "3", "4", "5", "6"]
    # Of a turn both its message and the event about it are stored.
    assert "resync_required" in alice.types[mark:]
