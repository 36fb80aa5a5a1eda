"""What somebody with bad intentions tries first."""

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.abc
import httpx2
import pytest
from tests.server.http.fixtures import open_world, request
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from agentvm import ScriptedDriver, ServerConfig, start_server
from agentvm.config import MEMORY, SystemSettings
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.server.http import FACES
from agentvm.server.local import RunningServer
from agentvm.tenants import tickets
from agentvm.tenants.rights import TENANT_WIDE

WHOAMI = "/v1/auth/whoami"
HOST = (b"host", b"127.0.0.1:8080")


def bearer(key: str) -> tuple[bytes, bytes]:
    return b"authorization", f"Bearer {key}".encode()


async def test_two_authorization_headers_are_refused_even_if_both_are_good() -> None:
    async with open_world() as world:
        good = bearer(world.acme.user)
        reply = await request(world.app, "GET", WHOAMI, [HOST, good, good], b"")
        assert (reply.status, reply.code) == (400, "invalid_input")
        assert (await request(world.app, "GET", WHOAMI, [HOST, good, bearer("x")], b"")).status == 400


async def test_a_key_elsewhere_is_not_read() -> None:
    async with open_world() as world:
        for name in (b"x-api-key", b"api-key", b"cookie", b"proxy-authorization", b"x-forwarded-user"):
            reply = await request(world.app, "GET", WHOAMI, [HOST, (name, world.acme.user.encode())], b"")
            assert (reply.status, reply.code) == (401, "unauthenticated"), name


async def test_a_key_in_the_address_is_not_read() -> None:
    async with open_world() as world:
        for parameter in ("token", "key", "access_token", "api_key"):
            reply = await world.ask("GET", f"{WHOAMI}?{parameter}={world.acme.user}", key="")
            assert reply.status == 401, parameter
            assert world.acme.user not in str(reply), parameter


async def test_another_scheme_is_no_credential() -> None:
    async with open_world() as world:
        for value in ("{}", "Basic {}", "Token {}", "Bearer", "Bearer ", "Bearer x {}", "Bearer {} x"):
            header = (b"authorization", value.format(world.acme.user).encode())
            reply = await request(world.app, "GET", WHOAMI, [HOST, header], b"")
            assert reply.status == 401, value
            assert reply.headers["www-authenticate"] == "Bearer", value


@pytest.mark.parametrize(
    "key",
    [
        "x",
        "avm_",
        "avm_" + "a" * 52,
        "null",
        "undefined",
        "'; DROP TABLE api_keys; --",
        "a.b.c",
        "\xff\xfe",
        "avmws_x",
        "x" * 2**20,
    ],
)
async def test_a_text_that_is_no_key_is_refused_like_any_other(key: str) -> None:
    async with open_world() as world:
        nobody = await world.ask("GET", WHOAMI, key="" if key.startswith(tickets.PREFIX) else "some-other-text")
        reply = await request(world.app, "GET", WHOAMI, [HOST, (b"authorization", b"Bearer " + key.encode("latin-1"))], b"")
        assert reply.status == 401
        assert reply.but_its_id() == nobody.but_its_id()


async def test_a_key_with_one_wrong_letter_is_refused_like_any_other() -> None:
    async with open_world() as world:
        good = world.acme.user
        nobody = await world.ask("GET", WHOAMI, key="some-other-text")
        for place in range(0, len(good), 5):
            wrong = good[:place] + ("a" if good[place] != "a" else "b") + good[place + 1 :]
            assert (await world.ask("GET", WHOAMI, key=wrong)).but_its_id() == nobody.but_its_id()


TAKING = [route for route in FACES if route.method in ("POST", "PUT") and route.http.body == "json"]


async def test_no_body_may_bring_a_member_that_nobody_knows() -> None:
    async with open_world() as world:
        for route in TAKING:
            path = route.path.replace("{", "").replace("}", "")
            reply = await world.ask(route.method, path, {"isAdmin": True, "tenantId": "ten_bolt"})
            assert (reply.status, reply.code) == (400, "invalid_input"), route.name


@pytest.mark.parametrize(
    ("origin", "host", "status"),
    [
        (None, "127.0.0.1:8080", 200),
        ("http://localhost:3000", "127.0.0.1:8080", 200),
        ("https://evil.example", "127.0.0.1:8080", 403),
        ("null", "127.0.0.1:8080", 403),
        ("http://evil.example", "evil.example", 403),
        (None, "evil.example", 403),
    ],
)
async def test_a_strangers_page_cannot_use_a_server_without_authentication(origin: str | None, host: str, status: int) -> None:
    async with open_world(auth=False) as world:
        headers = [] if origin is None else [(b"origin", origin.encode())]
        body = {"metric": "containers", "hard": 0}
        changed = await world.ask("PUT", "/v1/quotas", body, key="", headers=headers, host=host)
        assert changed.status == status
        assert (await world.ask("GET", WHOAMI, key="", headers=headers, host=host)).status == status
        assert len(await world.vm.tenancy.store.accounts(DEFAULT_TENANT).quotas.list()) == (status == 200)


async def test_credentials_are_neither_in_the_log_nor_in_an_answer(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with open_world() as world:
        wrong = world.acme.user[:-1] + ("a" if world.acme.user[-1] != "a" else "b")
        raw: list[bytes] = []
        for key in (world.acme.user, wrong, world.acme.admin):
            for path in (WHOAMI, f"{WHOAMI}?token={key}", f"/v1/auth/keys/{world.acme.user_key_id}", "/v1/users", "/nope"):
                raw.append((await world.ask("GET", path, key=key)).raw)
            raw.append((await world.ask("PUT", "/v1/secrets/A", {"valu": "hush-hush"}, key=key)).raw)
            raw.append((await world.ask("PUT", "/v1/secrets/A", {"value": "hush-hush"}, key=key)).raw)
            raw.append((await world.ask("PUT", "/v1/secrets/A", raw=b'{"value": "hush-hush', key=key)).raw)
        made = await world.ask("POST", "/v1/auth/keys", {"name": "k"}, key=world.acme.admin)
        await world.ask("GET", WHOAMI, key=made.body["key"])
        for secret in (world.acme.user, wrong, world.acme.admin, world.operator, made.body["key"], "hush-hush"):
            assert secret not in caplog.text
            assert secret not in str([record.__dict__ for record in caplog.records])
            assert secret.encode() not in b"".join(raw)


# --- over real sockets


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[RunningServer, httpx2.AsyncClient, str]]:
    """A server that authenticates, a client with the operator's key, and a user's key."""
    config = ServerConfig(system=SystemSettings(port=0, data_dir=MEMORY, auth="on", shutdown_seconds=0))
    async with start_server(config, drivers={"scripted": ScriptedDriver()}) as running:
        assert running.first_key is not None
        headers = {"Authorization": f"Bearer {running.first_key.reveal()}"}
        async with httpx2.AsyncClient(base_url=running.url, headers=headers) as client:
            assert (await client.post("/v1/tenants", json={"slug": "acme", "name": "Acme"})).status_code == 201
            user = await client.post("/v1/users?tenant=acme", json={"externalId": "alice"})
            about = {"name": "k", "userId": user.json()["userId"]}
            key = await client.post("/v1/auth/keys?tenant=acme", json=about)
            yield running, client, key.json()["key"]


async def closed(socket: ClientConnection) -> int | None:
    with anyio.fail_after(60):
        try:
            while True:
                await socket.recv()
        except ConnectionClosed:
            return socket.close_code


async def test_a_revoked_key_is_refused_at_once_and_its_socket_is_closed() -> None:
    async with serving() as (running, client, key):
        async with connect(f"{running.ws_url}?token={key}") as socket:
            assert json.loads(await socket.recv())
            key_id = key.split("_")[1]
            assert (await client.delete(f"/v1/auth/keys/{key_id}?tenant=acme")).status_code == 204
            assert (await client.get(WHOAMI, headers={"Authorization": f"Bearer {key}"})).status_code == 401
            assert await closed(socket) == 4401


async def test_the_sockets_of_a_suspended_tenant_are_closed() -> None:
    async with serving() as (running, client, key):
        async with connect(running.ws_url, additional_headers={"Authorization": f"Bearer {key}"}) as socket:
            assert json.loads(await socket.recv())
            assert (await client.put("/v1/tenants/acme", json={"status": "suspended"})).status_code == 200
            assert await closed(socket) == 4403


async def test_a_ws_token_opens_one_socket() -> None:
    async with serving() as (running, client, key):
        made = await client.post("/v1/auth/ws-token", headers={"Authorization": f"Bearer {key}"})
        token = made.json()["token"]
        async with connect(f"{running.ws_url}?token={token}") as socket:
            assert json.loads(await socket.recv())
        with pytest.raises(Exception, match="401"):
            await connect(f"{running.ws_url}?token={token}")


async def test_a_header_without_end_is_not_read_to_its_end() -> None:
    async with serving() as (running, client, _):
        async with await anyio.connect_tcp("127.0.0.1", running.port) as stream:
            await stream.send(b"GET /v1/auth/whoami HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ")
            with anyio.fail_after(60), pytest.raises(anyio.BrokenResourceError):
                await _send_for_ever(stream)
        assert (await client.get(WHOAMI)).status_code == 200


async def _send_for_ever(stream: anyio.abc.SocketStream) -> None:
    while True:
        await stream.send(b"x" * 2**20)


async def test_an_encoded_slash_is_part_of_a_name_over_a_socket_too() -> None:
    async with serving() as (running, _, key):
        request = f"Host: 127.0.0.1\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n"
        # By hand: a client may tidy an address up before it sends it.
        for path, status, said in (
            ("/v1/auth/keys/a%2Fb", b"404", b"Key not found: a/b"),
            ("/v1/auth/keys/a%2Fb/c", b"404", b"Not Found: GET /v1/auth/keys/a%2Fb/c"),
            ("/v1/auth%2Fwhoami", b"404", b"Not Found: GET /v1/auth%2Fwhoami"),
            ("/v1/auth/whoami", b"200", b"acme"),
        ):
            async with await anyio.connect_tcp("127.0.0.1", running.port) as stream:
                await stream.send(f"GET {path} HTTP/1.1\r\n{request}".encode())
                with anyio.fail_after(60):
                    reply = b"".join([part async for part in stream])
            assert reply.split(b" ")[1] == status
            assert said in reply


async def test_many_small_headers_are_bounded_too() -> None:
    async with serving() as (_, client, _):
        headers = {f"x-{number}": "y" * 1000 for number in range(2_000)}
        with anyio.fail_after(60):
            try:
                reply = await client.get(WHOAMI, headers=headers)
                assert reply.status_code == 431
            except httpx2.TransportError:
                pass
        assert (await client.get(WHOAMI)).status_code == 200


async def test_who_administers_keys_of_the_operators_tenant_cannot_lock_the_operator_out() -> None:
    async with open_world() as world:
        admin = await world.key(DEFAULT_TENANT, TENANT_WIDE)
        for key in (await world.ask("GET", "/v1/auth/keys")).items:
            await world.ask("DELETE", f"/v1/auth/keys/{key['keyId']}", key=admin)
        assert (await world.ask("GET", WHOAMI)).status == 200
