"""Entries of the ledger at the edge: kept until somebody has them, whatever becomes of the turns."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import httpx2
from tests.support.answers import anthropic_text, message_start, stream, text_block
from tests.support.edge import EdgeServer
from tests.support.provider import ScriptedProvider, Stall
from tests.support.wire import Json, client

ENTRIES = "/v1/ledger?container=c1"


@asynccontextmanager
async def over_http(edge: EdgeServer, key: str) -> AsyncIterator[httpx2.AsyncClient]:
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{edge.port}", headers=headers, timeout=60) as http:
        yield http


async def entries(edge: EdgeServer, key: str) -> list[Json]:
    async with over_http(edge, key) as http:
        found: list[Json] = (await http.get(ENTRIES)).json()["entries"]
        return found


async def test_each_model_call_is_an_entry_that_is_kept_until_a_key_for_it_has_deleted_it(
    url: str, edge: EdgeServer, provider: ScriptedProvider
) -> None:
    provider.play(anthropic_text("Hello"))
    key = url.rpartition("=")[2]
    edge.add_key("taker", tenant=key, ledger=True)
    async with client(url) as alice:
        image_id = (await alice.image("c1"))["imageId"]
        for said in ("one", "two"):
            await alice.say(image_id, said)
    first, second = await entries(edge, key)
    assert first["usage"] == {"inputTokens": 10, "outputTokens": 5}
    assert (first["driver"], first["provider"], first["model"]) == ("anthropic", "test", "model")
    assert first["id"] != second["id"]
    async with over_http(edge, key) as user, over_http(edge, "taker") as taker, over_http(edge, "wrong") as nobody:
        chosen = {"container": "c1", "id": first["id"]}
        assert (await nobody.get(ENTRIES)).status_code == 401
        assert (await user.delete("/v1/ledger", params=chosen)).status_code == 403
        assert (await taker.delete(ENTRIES)).status_code == 400
        for _ in range(2):
            assert (await taker.delete("/v1/ledger", params=chosen)).status_code == 204
    assert await entries(edge, key) == [second]


async def test_a_call_is_billed_though_its_image_was_deleted_or_its_turn_stopped(
    url: str, edge: EdgeServer, provider: ScriptedProvider
) -> None:
    cut_off = stream([message_start(), *text_block(0, "Half of it")[:2], Stall()])
    provider.play(anthropic_text("Hello"), cut_off)
    key = url.rpartition("=")[2]
    async with client(url) as alice:
        image_id = (await alice.image("c1"))["imageId"]
        await alice.say(image_id, "one")
        sent = await alice.request("message_send_request", imageId=image_id, content="two")
        await alice.wait(lambda frame: frame.get("type") == "text_delta" and "Half" in frame["data"]["text"])
        await alice.request("agent_interrupt_request", imageId=image_id)
        await alice.end_of(sent["turnId"])
        await alice.request("image_delete_request", imageId=image_id)
        provider.play(cut_off)
        again = (await alice.image("c1"))["imageId"]
        mark = len(edge.log)
        await alice.request("message_send_request", imageId=again, content="three")
        await provider.wait_request(3)
        await alice.wait(lambda frame: frame.get("type") == "text_delta" and frame["context"]["imageId"] == again)
        # Deleted while it runs: its Worker is stopped, and finds no turn any more to store its end with.
        await alice.request("image_delete_request", imageId=again)
    with anyio.fail_after(60):
        await edge.bursts(mark, "fold")
    found = await entries(edge, key)
    assert sorted((one["usage"]["inputTokens"], one["usage"].get("estimated", False)) for one in found) == [
        (10, False),
        (10, True),
        (10, True),
    ]
    assert all(one["usage"]["outputTokens"] > 0 for one in found)
