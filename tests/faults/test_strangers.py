"""Strangers and proxies (F32): whoever has no key keeps nobody out, fills no log, and is not believed where they come from."""

import json
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import httpx2
import pytest
from tests.server.test_authentication import OPERATOR, ask, bearer, closed_with
from tests.server.test_unknown_peers import open_raw, text, until_closed
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from agentvm import ScriptedDriver, ServerConfig, start_server
from agentvm.config import MEMORY, SystemSettings
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.setting import Switch
from agentvm.server import transport
from agentvm.server.local import RunningServer
from agentvm.server.pending_sockets import PENDING_PER_ORIGIN_MAX


@asynccontextmanager
async def serving(
    *, auth: Switch = "on", trusted_proxies: tuple[str, ...] = ()
) -> AsyncIterator[tuple[RunningServer, httpx2.AsyncClient]]:
    system = SystemSettings(port=0, shutdown_seconds=0, data_dir=MEMORY, auth=auth, trusted_proxies=trusted_proxies)
    async with start_server(ServerConfig(system=system), drivers={"scripted": ScriptedDriver()}) as server:
        async with httpx2.AsyncClient(base_url=server.url, trust_env=False) as web:
            yield server, web


async def key_of(server: RunningServer) -> str:
    _, text = await server.server.vm.tenancy.access.issue(DEFAULT_TENANT, name="test", granter=OPERATOR)
    return text.reveal()


async def test_f32_silent_sockets_of_one_address_keep_no_client_out() -> None:
    async with serving() as (server, _), AsyncExitStack() as crowd:
        key = await key_of(server)
        first = await crowd.enter_async_context(connect(server.ws_url))
        for _ in range(PENDING_PER_ORIGIN_MAX):
            await crowd.enter_async_context(connect(server.ws_url))
        assert await closed_with(first) == 1013
        async with connect(server.ws_url) as client:
            await client.send(json.dumps({"type": "auth", "headers": bearer(key)}))
            assert "containerIds" in await ask(client, "container_list")


async def test_f32_clients_behind_a_named_proxy_have_rooms_of_their_own() -> None:
    async with serving(trusted_proxies=("127.0.0.1",)) as (server, _), AsyncExitStack() as crowd:
        waiting = await crowd.enter_async_context(
            connect(server.ws_url, additional_headers={"X-Forwarded-For": "198.51.100.1"})
        )
        for number in range(2 * PENDING_PER_ORIGIN_MAX):
            # What stands before the proxy's own entry is the client's own invention.
            said = {"X-Forwarded-For": f"6.6.6.{number}, 203.0.113.5"}
            await crowd.enter_async_context(connect(server.ws_url, additional_headers=said))
        assert len(server.server._listener.app.pending) == PENDING_PER_ORIGIN_MAX + 1
        await waiting.send(json.dumps({"type": "auth", "headers": bearer(await key_of(server))}))
        assert "containerIds" in await ask(waiting, "container_list")


@pytest.mark.parametrize(
    ("proxies", "address"), [((), "127.0.0.1"), (("127.0.0.0/8",), "203.0.113.5"), (("10.0.0.1",), "127.0.0.1")]
)
async def test_f32_the_audit_log_has_the_real_address(proxies: tuple[str, ...], address: str) -> None:
    async with serving(trusted_proxies=proxies) as (server, web):
        assert server.first_key is not None
        said = bearer(server.first_key.reveal()) | {"X-Forwarded-For": "6.6.6.6, 203.0.113.5"}
        made = await web.post("/v1/tenants", content=json.dumps({"slug": "acme", "name": "Acme"}).encode(), headers=said)
        assert made.status_code == 201
        (_, entry), *_ = await server.server.vm.tenancy.store.accounts(DEFAULT_TENANT).audit.list()
        assert (entry.action, entry.address) == ("tenant.create", address)


@pytest.mark.parametrize("name", ["X-Forwarded-For", "X-Forwarded-Host", "Forwarded", "Via"])
async def test_f32_without_authentication_nothing_is_served_through_a_proxy(name: str) -> None:
    async with serving(auth="off") as (server, web):
        for path in ("/v1/auth/whoami", "/v1/sessions", "/health", "/metrics"):
            assert (await web.get(path)).status_code == 200
            refused = await web.get(path, headers={name: "203.0.113.5"})
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, "authentication_off")
            assert "--auth on" in refused.text
            assert "--trusted-proxy" in refused.text
        with pytest.raises(InvalidStatus) as closed:
            await connect(server.ws_url, additional_headers={name: "203.0.113.5"})
        assert closed.value.response.status_code == 403
        assert b"--trusted-proxy" in (closed.value.response.body or b"")


async def test_f32_connections_that_say_nothing_are_closed_within_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "HEAD_SECONDS", 0.05)
    async with serving() as (server, web), AsyncExitStack() as crowd:
        streams = [await crowd.enter_async_context(await anyio.connect_tcp("127.0.0.1", server.port)) for _ in range(50)]
        with anyio.fail_after(60):
            for stream in streams:
                await until_closed(stream)
        assert (await web.get("/health")).status_code == 200


async def test_f32_bad_frames_of_strangers_fill_no_log(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as (server, web):
        with caplog.at_level(logging.WARNING):
            for _ in range(40):
                async with await open_raw(server.port) as stream:
                    await until_closed(stream, text(b"\xff\xfe") + text(b'{"type":"x_request"}') * 3)
            for _ in range(40):
                async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
                    await until_closed(stream, b"\x16\x03\x01 no http\r\n\r\n")
        assert (await web.get("/health")).status_code == 200
    assert len(caplog.records) <= 20
    assert not [one for one in caplog.records if one.exc_info]


async def test_f32_whoever_waits_hears_that_the_server_goes_away() -> None:
    async with AsyncExitStack() as outlives:
        async with serving() as (server, _):
            waiting = await outlives.enter_async_context(connect(server.ws_url))
            await waiting.recv()
        assert await closed_with(waiting) == 1001


async def test_f32_an_unknown_peers_request_is_refused_by_an_event_and_a_reply() -> None:
    async with serving() as (server, _), connect(f"{server.ws_url}/") as socket:
        await socket.recv()
        await socket.send(json.dumps({"type": "image_list_request", "data": {"requestId": "r"}}))
        with anyio.fail_after(60):
            event, reply = json.loads(await socket.recv()), json.loads(await socket.recv())
        assert (event["type"], event["data"]["code"]) == ("system_error", "unauthenticated")
        assert (reply["type"], reply["data"]["errorCode"]) == ("image_list_response", "unauthenticated")
