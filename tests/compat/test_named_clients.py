"""Checklist 20: the browser client after a dropped socket, with `?client=` in its URL; and those who name themselves badly."""

import json
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from tests.support.serving import Play, Served, restartable, serving
from tests.support.wire import Browser, Client18, Client19, Json, client, client_of, named, seqs

from agentvm.server import readers


async def settled(one: Client19) -> None:
    """What is replayed may follow the first reply, but not the second. Earlier acknowledgements have been read by then."""
    await one.settle()
    await one.settle()


async def end_of(one: Client19, turn: Json) -> None:
    await one.end_of(turn["turnId"])


async def test_the_gap_comes_exactly_once_in_order_and_before_what_is_live() -> None:
    play = Play()
    async with serving(play) as server:
        browser = Browser(named(server.url), {"Authorization": "Bearer t"})
        async with browser.connected() as here:
            record = await here.image()
            session_id = record["sessionId"]
            turn = await here.request("message_send_request", imageId=record["imageId"], content="slow")
            await here.wait("text_delta", 2)
            await settled(here)
            await browser.drop(here)
        play.gate.set()
        async with client(server.url) as other:
            await other.say(record["imageId"], "hello")
            async with browser.connected() as back:
                await end_of(back, turn)
                await other.say(record["imageId"], "and more")
                await back.wait("turn_response", 3)
                heard = seqs(here, session_id) + seqs(back, session_id)
                assert heard == list(range(1, heard[-1] + 1))
                assert all("__payload" in json.loads(text) for text in back.raw), "each can be acknowledged"
                await settled(back)
        async with browser.connected() as again:
            await settled(again)
            assert seqs(again, session_id) == []


async def test_a_socket_that_breaks_over_and_over_loses_and_doubles_nothing() -> None:
    async with serving(Play()) as server, client(server.url) as other:
        browser = Browser(named(server.url))
        heard: list[int] = []
        async with browser.connected() as now:
            record = await now.image()
            await settled(now)
        for number in range(8):
            await other.say(record["imageId"], f"many {number * 20}")
            async with browser.connected() as now:
                await now.wait("turn_response")
                await settled(now)
                heard += seqs(now, record["sessionId"])
                await browser.drop(now)
        assert heard == list(range(1, heard[-1] + 1))


async def test_a_graceful_restart_in_the_middle_of_a_turn_is_heard_without_a_gap(tmp_path: Path) -> None:
    play = Play()
    async with restartable(play, tmp_path) as server:
        browser = Browser(named((await server.start()).url))
        async with browser.connected() as here:
            record = await here.image()
            await here.request("message_send_request", imageId=record["imageId"], content="slow")
            await here.wait("text_delta", 2)
            await server.stop()
            assert await here.wait_closed() == 1001
        play.gate.set()
        await server.start()
        async with browser.connected() as back:
            await back.wait("turn_response")
            heard = seqs(here, record["sessionId"]) + seqs(back, record["sessionId"])
            assert heard == list(range(1, heard[-1] + 1))
            assert "turn_resumed" in back.types


async def test_without_a_name_or_under_another_one_nothing_is_replayed() -> None:
    async with serving(Play()) as server, client(server.url) as other:
        browser = Browser(named(server.url))
        async with browser.connected() as here:
            record = await here.image()
            await settled(here)
        await other.say(record["imageId"], "hello")
        for url in (server.url, named(server.url, "somebody-else"), named(server.url, "short")):
            async with client(url) as stranger:
                await stranger.send({"type": "subscribe", "sessionId": record["sessionId"]})
                await settled(stranger)
                assert seqs(stranger, record["sessionId"]) == []


async def test_a_client_from_before_1_9_that_names_itself_is_served_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "ACK_TIMEOUT_SECONDS", 0.05)
    async with serving(Play()) as server:
        for _ in range(2):
            async with client_of(Client18, named(server.url)) as old:
                record = await old.image()
                await old.say(record["imageId"], "hello")
                assert not any("__payload" in json.loads(text) for text in old.raw[1:])


ODD_IDS = [
    "",
    "x",
    "x" * 65,
    "x" * 4_000,
    "a b c d e f",
    "%00%00%00%00%00%00%00%00",
    "../../../../etc/passwd",
    "é" * 10,
    "&&&&&&&&",
]


@pytest.mark.parametrize("odd", ODD_IDS)
async def test_a_name_that_is_none_is_ignored(shared: Served, odd: str) -> None:
    async with client(named(shared.url, odd.replace(" ", "%20").replace("é", "%C3%A9"))) as one:
        record = await one.image()
        await one.say(record["imageId"], "hello")


def backwards(ids: list[str]) -> list[str]:
    return ids[::-1]


def never_sent(ids: list[str]) -> list[str]:
    connection = ids[0].rpartition("_")[0]
    return [*ids, *(f"{connection}_{number}" for number in (0, -1, 10**6, 10**30, "x", "")), "", connection, "conn_x_1"]


def again_and_again(ids: list[str]) -> list[str]:
    return ids * 20


@pytest.mark.parametrize("disorder", [backwards, never_sent, again_and_again])
async def test_odd_acknowledgements_lead_to_nothing_twice(disorder: Callable[[list[str]], list[str]]) -> None:
    async with serving(Play()) as server:
        browser = Browser(named(server.url))
        async with browser.connected() as here:
            record = await here.image()
            await here.say(record["imageId"], "hello")
            for message_id in disorder(here.acked):
                await here.socket.send(json.dumps({"__ack": message_id}))
            await settled(here)
            await browser.drop(here)
        async with client(server.url) as other:
            await other.say(record["imageId"], "more")
        async with browser.connected() as back:
            await back.wait("turn_response")
            heard = seqs(here, record["sessionId"]) + seqs(back, record["sessionId"])
            assert heard == list(range(1, heard[-1] + 1))


async def test_two_tabs_under_one_name_both_work_and_stay() -> None:
    async with serving(Play()) as server, client(named(server.url)) as one, client(named(server.url)) as two:
        record = await one.image()
        await two.send({"type": "subscribe", "sessionId": record["sessionId"]})
        await settled(two)
        for tab in (one, two, one):
            await tab.say(record["imageId"], "hello")
        with anyio.fail_after(60):
            await two.wait("turn_response", 3)
        assert not one.closed
        assert not two.closed
