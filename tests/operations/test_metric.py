import re
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.server.http.fixtures import Reply, World, open_world

from agentvm.model.ids import DEFAULT_TENANT, ContainerId, TenantId
from agentvm.model.principal import MEMBER, Principal
from agentvm.observability.sampler import DISK_FULL_BYTES
from agentvm.operations.dispatch import answer
from agentvm.operations.image_build import ImageCreate
from agentvm.operations.message import MessageSend
from agentvm.version import VERSION

SCRAPER = (b"accept", b"application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1")


def values(reply: Reply) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(reply.raw.decode())
        for sample in family.samples
    }


async def talk(world: World, tenant_id: TenantId, user: str, *texts: str) -> str:
    """Turns of a user, one after the other; the session they are in."""
    user_id = world.acme.user_id if (tenant_id, user) == (world.acme.tenant_id, "alice") else None
    one = Principal(tenant_id=tenant_id, user_id=user_id, permissions=MEMBER, containers=(f"user-{user}",))
    peer = world.vm.attach(one)
    container = ContainerId(f"user-{user}")
    await peer.store.container(container).create(1)
    await answer(peer, ImageCreate(container_id=container), "r")
    (image,) = await peer.store.container(container).list_images()
    for text in texts:
        await answer(peer, MessageSend(image_id=image.image_id, content=text), "r")
        said = ""
        while '"turn_response"' not in said:
            said = "".join(frame.bare for frame in await peer.channel.take())
    world.vm.detach(peer)
    return image.session_id


async def test_the_operator_sees_the_server_in_json_and_as_text() -> None:
    async with open_world() as world:
        await talk(world, world.acme.tenant_id, "alice", "one two three", "four")
        told: Any = (await world.ask("GET", "/v1/metrics")).body
        assert (told["scope"], told["turns"]["completed"], told["turns"]["successRate"]) == ("server", 2, 1.0)
        (model,) = told["models"]
        assert (model["provider"], model["model"], model["calls"]) == ("scripted", "scripted", 2)
        assert (model["inputTokens"], model["outputTokens"], model["price"]) == (4, 4, 0)
        commands = {one["name"]: (one["ok"], one["refused"]) for one in told["requests"]["commands"]}
        assert commands == {"image_create": (1, 0), "message_send": (2, 0)}
        assert told["latency"]["turn"]["count"] == told["latency"]["firstToken"]["count"] == 2
        assert told["process"]["version"] == VERSION
        text = values(await world.ask("GET", "/metrics"))
        assert text["agentvm_turns_total", (("outcome", "completed"),)] == 2
        assert text["agentvm_tokens_total", (("kind", "input"), ("model", "scripted"), ("provider", "scripted"))] == 4
        assert text["agentvm_http_requests_total", (("method", "GET"), ("route", "/v1/metrics"), ("status", "2xx"))] == 1


@pytest.mark.parametrize(
    ("path", "accept", "said"),
    [
        ("/v1/metrics", b"*/*", "application/json"),
        ("/v1/metrics", b"application/json", "application/json"),
        ("/v1/metrics", b"application/json, text/plain, */*", "application/json"),
        ("/v1/metrics", b"text/plain;q=0, */*", "application/json"),
        ("/v1/metrics", b"application/openmetrics-text;q=0, text/plain", "text/plain; version=0.0.4; charset=utf-8"),
        ("/metrics", b"application/openmetrics-text;q=0, text/plain", "text/plain; version=0.0.4; charset=utf-8"),
        ("/v1/metrics", b"text/plain", "text/plain; version=0.0.4; charset=utf-8"),
        ("/v1/metrics", SCRAPER[1], "application/openmetrics-text; version=1.0.0; charset=utf-8"),
        ("/metrics", b"application/json", "text/plain; version=0.0.4; charset=utf-8"),
        ("/metrics", SCRAPER[1], "application/openmetrics-text; version=1.0.0; charset=utf-8"),
    ],
)
async def test_the_form_is_what_is_asked_for(path: str, accept: bytes, said: str) -> None:
    async with open_world() as world:
        reply = await world.ask("GET", path, headers=[(b"accept", accept)])
        assert (reply.status, reply.headers["content-type"]) == (200, said)


async def test_no_name_of_a_tenant_or_a_user_is_in_what_is_told() -> None:
    async with open_world() as world:
        session = await talk(world, world.acme.tenant_id, "alice", "hush")
        for path in ("/v1/users/alice", "/v1/turns/alice", "/nowhere/acme", "/v1/usage?by=user&tenant=acme"):
            await world.ask("GET", path)
        await world.ask("alice", "/v1/usage")
        for headers in ([], [SCRAPER]):
            for path in ("/metrics", "/v1/metrics"):
                text = (await world.ask("GET", path, headers=headers)).raw.decode()
                assert not re.search(rf"acme|bolt|alice|hush|{session}", text)


async def test_a_scraper_needs_no_more_than_to_read_metrics() -> None:
    async with open_world() as world:
        key = await world.key(DEFAULT_TENANT, ["metrics:read"])
        assert (await world.ask("GET", "/metrics", key=key)).status == 200
        assert (await world.ask("GET", "/v1/metrics", key=key)).body["scope"] == "server"
        assert (await world.ask("GET", "/v1/users", key=key)).status == 403
        assert (await world.ask("GET", "/metrics", key="")).status == 401
        assert (await world.ask("GET", "/metrics", key=await world.key(DEFAULT_TENANT, ["usage:read"]))).status == 403


async def test_a_tenant_sees_its_own_numbers_and_no_others() -> None:
    async with open_world() as world:
        await world.spend(world.acme.tenant_id, "1")
        await world.spend(world.acme.tenant_id, "2", at=world.clock() - 40 * 86_400_000)
        await world.spend(world.bolt.tenant_id, "3")
        told = (await world.ask("GET", "/v1/metrics", key=world.acme.admin)).body
        assert set(told) == {"scope", "turnsRunning", "messagesWaiting", "connections", "today", "month", "total"}
        assert [told[when]["calls"] for when in ("today", "month", "total")] == [1, 1, 2]
        named = (await world.ask("GET", "/v1/metrics?tenant=bolt")).body
        assert (named["scope"], named["total"]["calls"]) == ("tenant", 1)
        for path in ("/metrics", "/v1/metrics"):
            reply = await world.ask("GET", path, key=world.acme.admin, headers=[SCRAPER])
            assert (reply.status, reply.code) == (403, "access_denied")


async def test_a_user_sees_what_they_used_themselves() -> None:
    async with open_world() as world:
        acme = world.acme
        await world.spend(acme.tenant_id, "1", user_id=acme.user_id)
        await world.spend(acme.tenant_id, "2", user_id=await world.user(acme.tenant_id, "bob"))
        viewer = await world.user(acme.tenant_id, "vera", "viewer")
        key = await world.key(acme.tenant_id, ["metrics:read"], user_id=viewer)
        await world.spend(acme.tenant_id, "3", user_id=viewer, container_id="elsewhere")
        told = (await world.ask("GET", "/v1/metrics", key=key)).body
        assert told["scope"] == "user"
        assert told["total"]["calls"] in (0, 1)


async def test_the_status_is_for_who_reads_metrics() -> None:
    async with open_world() as world:
        told = (await world.ask("GET", "/v1/status", key=world.acme.admin)).body
        assert (told["status"], told["version"]) == ("ok", VERSION)
        assert {check["name"] for check in told["checks"]} == {"store", "disk", "loop", "provider:scripted"}
        assert (await world.ask("GET", "/v1/status", key=world.acme.user)).status == 403


async def test_a_full_disk_is_told_and_the_server_is_not_ready() -> None:
    async with open_world() as world:
        assert (await world.ask("GET", "/ready", key="")).status == 200
        world.vm.monitor.sampler.disk_free = DISK_FULL_BYTES - 1
        ready = await world.ask("GET", "/ready", key="")
        assert (ready.status, ready.body) == (503, {"status": "no space left on the disk"})
        assert (await world.ask("GET", "/v1/status")).body["status"] == "fail"
        assert (await world.ask("GET", "/health", key="")).body == {"status": "ok", "version": VERSION}


async def test_the_course_of_the_metrics_is_for_the_operator() -> None:
    async with open_world() as world:
        started = world.clock()
        await talk(world, world.acme.tenant_id, "alice", "one", "two")
        world.clock.now += 60_000
        world.vm.monitor.series.take()
        told: Any = (await world.ask("GET", "/v1/metrics/series")).body
        assert (told["since"], told["intervalSeconds"], told["at"]) == (started, 60, [world.clock()])
        assert told["columns"]["turnsCompleted"] == [2]
        assert told["columns"]["modelCalls"] == [2]
        later: Any = (await world.ask("GET", f"/v1/metrics/series?since={world.clock() + 1}")).body
        assert (later["at"], later["columns"]["turnsCompleted"]) == ([], [])
        assert (await world.ask("GET", "/v1/metrics/series", key=world.acme.admin)).status == 403
        assert (await world.ask("GET", "/v1/metrics/series?since=x")).code == "invalid_input"
