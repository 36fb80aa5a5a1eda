"""The tables of an object."""

import httpx2
from tests.support.answers import anthropic_text
from tests.support.edge import EdgeServer
from tests.support.provider import ScriptedProvider
from tests.support.wire import Client19, Json, client, seqs


async def said_in(one: Client19, record: Json) -> list[str]:
    reply = await one.request("image_messages_request", imageId=record["imageId"])
    return [message["content"] for message in reply["messages"] if message["role"] == "user"]


async def test_an_object_of_an_earlier_worker_goes_on_with_everything_that_it_holds(
    url: str, edge: EdgeServer, provider: ScriptedProvider
) -> None:
    provider.play(anthropic_text("Hello"))
    async with client(url) as alice:
        records = [await alice.image("c1") for _ in range(2)]
        for record in (*records, records[0]):
            await alice.say(record["imageId"], "before")
    edge.age_object(url, "c1")
    async with client(url) as bob:
        for record in records:
            await bob.send({"type": "subscribe", "sessionId": record["sessionId"], "afterCursor": "0"})
        await bob.say(records[0]["imageId"], "after")
        told = [await said_in(bob, record) for record in records]
        numbers = [seqs(bob, record["sessionId"]) for record in records]
    assert told == [["before", "before", "after"], ["before"]]
    assert all(each == list(range(1, len(each) + 1)) for each in numbers)
    async with httpx2.AsyncClient(timeout=60) as http:
        token = url.rpartition("=")[2]
        found = await http.get(f"http://127.0.0.1:{edge.port}/v1/ledger?container=c1&token={token}")
    entries = found.json()["entries"]
    assert sorted(entry["sessionId"] for entry in entries) == sorted(
        record["sessionId"] for record in (*records, records[0], records[0])
    )
