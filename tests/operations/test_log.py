import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import httpx2
import pytest
from tests.server.http.fixtures import World, open_world

from agentvm import ScriptedDriver, ServerConfig, start_server
from agentvm.config import MEMORY, SystemSettings
from agentvm.log import concerning, get_logger
from agentvm.server.local import RunningServer

logger = get_logger("agentvm.tests.http_logs")


def say(event: str, /, **about: Any) -> None:
    logger.warning(event, **about)


async def events(world: World, query: str = "", key: str | None = None) -> list[str]:
    reply = await world.ask("GET", f"/v1/logs?{query}", key=key)
    assert reply.status == 200, reply.raw
    return [item["event"] for item in reply.items]


async def test_an_entry_is_shown_with_all_that_it_is_about() -> None:
    async with open_world() as world:
        with concerning(request_id="r1", tenant_id=world.acme.tenant_id, turn_id="u1"):
            say("turn_failed", code="timeout", image_id="i1")
        (item,) = (await world.ask("GET", "/v1/logs?event=turn_failed")).items
        assert item == {
            "number": item["number"],
            "at": world.clock(),
            "level": "warning",
            "event": "turn_failed",
            "logger": "agentvm.tests.http_logs",
            "requestId": "r1",
            "tenantId": world.acme.tenant_id,
            "turnId": "u1",
            "facts": {"code": "timeout", "imageId": "i1"},
        }


async def test_entries_are_filtered_and_read_in_pages() -> None:
    async with open_world() as world:
        for number in range(5):
            say("counted", turn_id=f"u{number}", session_id="s1")
        logger.error("broken", container_id="c1", request_id="r9")
        assert await events(world, "level=error") == ["broken"]
        assert await events(world, "container=c1&request=r9&event=broken&text=BROK") == ["broken"]
        assert await events(world, "turn=u3&session=s1") == ["counted"]
        assert await events(world, f"since={world.clock()}&until={world.clock()}") == []
        first = await world.ask("GET", "/v1/logs?session=s1&limit=3")
        rest = await world.ask("GET", f"/v1/logs?session=s1&limit=3&cursor={first.body['nextCursor']}")
        assert [item["turnId"] for item in first.items + rest.items] == ["u4", "u3", "u2", "u1", "u0"]
        assert "nextCursor" not in rest.body
        for wrong in ("level=loud", "limit=0", "since=x", "after=1", "follow=true&cursor=1", "text="):
            assert (await world.ask("GET", f"/v1/logs?{wrong}")).status == 400, wrong


async def test_everybody_sees_their_own_and_the_operator_all() -> None:
    async with open_world() as world:
        acme, bolt = world.acme.tenant_id, world.bolt.tenant_id
        say("of_nobody")
        say("of_acme", tenant_id=acme, container_id="c1")
        say("of_acme_too", tenant_id=acme, container_id="c2")
        say("of_bolt", tenant_id=bolt, container_id="c1")
        reader = await world.key(acme, ["logs:read"])
        bound = await world.key(acme, ["logs:read"], containers=("c1",))
        assert set(await events(world)) >= {"of_nobody", "of_acme", "of_acme_too", "of_bolt"}
        assert await events(world, "tenant=bolt") == ["of_bolt"]
        assert await events(world, key=reader) == ["of_acme_too", "of_acme"]
        assert await events(world, key=bound) == ["of_acme"]
        assert (await world.ask("GET", "/v1/logs?tenant=bolt", key=reader)).status == 404
        assert (await world.ask("GET", "/v1/logs", key=world.acme.user)).status == 403
        assert (await world.ask("GET", "/v1/logs", key="")).status == 401


async def test_a_request_that_crashes_is_found_by_the_id_that_its_asker_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_world() as world:

        async def crash(*_: object) -> None:
            raise KeyError("what somebody said")

        monkeypatch.setattr(world.vm.logs, "errors", crash)
        reply = await world.ask("GET", "/v1/errors", key=world.acme.admin)
        assert reply.status == 500
        (item,) = (await world.ask("GET", f"/v1/logs?request={reply.headers['x-request-id']}")).items
        assert (item["event"], item["raised"]["kind"], item["tenantId"]) == (
            "request_crashed",
            "KeyError",
            world.acme.tenant_id,
        )
        assert "somebody said" not in json.dumps(item)


@asynccontextmanager
async def running() -> AsyncIterator[tuple[RunningServer, httpx2.AsyncClient]]:
    config = ServerConfig(system=SystemSettings(port=0, data_dir=MEMORY, auth="on", shutdown_seconds=0))
    with anyio.fail_after(60):
        async with start_server(config, drivers={"scripted": ScriptedDriver()}) as server:
            assert server.first_key is not None
            key = {"Authorization": f"Bearer {server.first_key.reveal()}"}
            async with httpx2.AsyncClient(base_url=server.url, headers=key, timeout=60, trust_env=False) as client:
                yield server, client


async def lines(answer: httpx2.Response) -> AsyncIterator[Any]:
    async for line in answer.aiter_lines():
        if line:
            yield json.loads(line)


async def test_who_follows_is_sent_the_newest_and_then_each_as_it_comes() -> None:
    async with running() as (_, client):
        say("one", turn_id="u1")
        say("two", turn_id="u1")
        async with client.stream("GET", "/v1/logs?follow=true&turn=u1&limit=1") as answer:
            assert answer.headers["content-type"].startswith("application/x-ndjson")
            coming = lines(answer)
            assert (await anext(coming))["event"] == "two"
            say("other", turn_id="u2")
            say("three", turn_id="u1")
            third = await anext(coming)
            assert third["event"] == "three"
        say("four", turn_id="u1")
        async with client.stream("GET", f"/v1/logs?follow=true&turn=u1&after={third['number']}") as answer:
            assert (await anext(lines(answer)))["event"] == "four"


async def test_how_long_somebody_follows_says_nothing_of_how_fast_answers_are() -> None:
    async with running() as (_, client):
        say("one", turn_id="u1")
        async with client.stream("GET", "/v1/logs?follow=true&turn=u1") as answer:
            await anext(lines(answer))
        while True:
            told = (await client.get("/v1/metrics")).json()
            counts = {(one["route"], one["status"]): one["count"] for one in told["requests"]["http"]}
            if ("/v1/logs", "2xx") in counts:
                break
            await anyio.lowlevel.checkpoint()
        assert counts["/v1/logs", "2xx"] == 1
        assert told["latency"]["http"]["count"] == sum(counts.values()) - 1


async def test_a_browser_is_sent_events() -> None:
    async with running() as (_, client):
        say("one", turn_id="u1")
        accepts = {"Accept": "text/event-stream"}
        async with client.stream("GET", "/v1/logs?follow=true&turn=u1", headers=accepts) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            coming = answer.aiter_lines()
            assert [await anext(coming) for _ in range(2)] == [": still here", ""]
            number, data = await anext(coming), await anext(coming)
            assert number.removeprefix("id: ") == str(json.loads(data.removeprefix("data: "))["number"])


async def test_a_stream_ends_when_its_reader_goes_and_when_the_server_stops() -> None:
    async with running() as (server, client):
        streams = server.app.gate.streams
        async with client.stream("GET", "/v1/logs?follow=true") as answer:
            await anext(answer.aiter_bytes())
            assert len(streams) == 1
        while len(streams):
            await anyio.lowlevel.checkpoint()
        async with client.stream("GET", "/v1/logs?follow=true&event=never") as answer:
            coming = answer.aiter_bytes()
            await anext(coming)
            streams.end()
            assert [piece async for piece in coming] == []
        assert (await client.get("/v1/logs?follow=true")).status_code == 503
