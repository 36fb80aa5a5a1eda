from typing import Any

import pytest
from litestar import WebSocket, get, websocket
from tests.server.http.fixtures import open_world, request

from agentvm.errors import StoreFailed
from agentvm.model.account import AuditEntry
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.server.asgi import management_api
from agentvm.server.http import ROUTES
from agentvm.server.http.gate import MAX_BODY, PUBLIC, Gate, check_gated, gated
from agentvm.server.http.route import Ask, Given, Nothing, Route
from agentvm.storage.accounts import Accounts

pytestmark = pytest.mark.anyio


def test_a_handler_that_is_not_behind_the_gate_keeps_the_server_from_starting() -> None:
    @get("/v1/forgotten", sync_to_thread=False)
    def forgotten() -> None: ...

    with pytest.raises(RuntimeError, match="GET /v1/forgotten is not behind the gate"):
        management_api(lambda: None, behind_gate=[forgotten])


def test_a_socket_that_is_not_behind_the_gate_does_too() -> None:
    @websocket("/v1/stream")
    async def stream(socket: WebSocket[Any, Any, Any]) -> None: ...

    app = management_api(lambda: None)
    app.register(stream)
    with pytest.raises(RuntimeError, match="/v1/stream"):
        check_gated(app)


async def test_all_that_is_served_is_behind_the_gate_but_the_public_paths() -> None:
    async with open_world() as world:
        check_gated(world.app.http)
        assert {route.name for route in gated(world.app.http)} == {route.name for route in ROUTES}
        assert {"/health", "/ready", "/ws"} == PUBLIC
        for path in PUBLIC:
            assert (await world.ask("GET", path, key="")).status in (200, 426)


def test_what_writes_is_audited() -> None:
    silent = {route.name for route in ROUTES if route.method != "GET" and route.action is None}
    assert silent == {"POST /v1/auth/ws-token", "POST /v1/tenants/get", "POST /v1/tenants/list"}
    assert {route.name for route in ROUTES if route.method == "GET" and route.action} == set()


async def test_a_request_has_one_id_in_its_answer_its_error_and_the_audit_log() -> None:
    async with open_world() as world:
        reply = await world.ask("DELETE", "/v1/secrets/NONE", headers=[(b"x-request-id", b"mine")])
        assert reply.body["error"]["requestId"] == reply.headers["x-request-id"] != "mine"
        (entry,) = await world.vm.office.store.accounts(DEFAULT_TENANT).audit.list()
        assert entry[1].request_id == reply.headers["x-request-id"]
        assert (await world.ask("GET", "/v1/users")).headers["x-request-id"] != reply.headers["x-request-id"]
        assert "x-request-id" in (await world.ask("GET", "/health", key="")).headers


async def test_a_refusal_is_audited_with_its_code() -> None:
    async with open_world() as world:
        acme = world.acme
        await world.ask("POST", "/v1/users", {"externalId": "x"}, key=acme.user)
        await world.ask("POST", "/v1/users", {"nonsense": 1}, key=acme.admin)
        world.clock.now += 60_000
        await world.ask("POST", "/v1/users", raw=b"x" * (MAX_BODY + 1), key=acme.admin)
        results = [entry[2] for entry in await world.audit(acme.tenant_id)]
        assert results == ["refused:413", "refused:invalid_input", "refused:permission_denied"]


async def test_who_tries_a_foreign_tenant_leaves_the_trace_in_their_own() -> None:
    async with open_world() as world:
        await world.ask("POST", "/v1/users?tenant=bolt", {"externalId": "x"}, key=world.acme.admin)
        assert [entry[2] for entry in await world.audit(world.acme.tenant_id)] == ["refused:not_found"]
        assert await world.audit(world.bolt.tenant_id) == []


async def test_the_operator_names_another_tenant_by_id_or_slug() -> None:
    async with open_world() as world:
        for name in ("acme", world.acme.tenant_id):
            users = (await world.ask("GET", f"/v1/users?tenant={name}")).items
            assert [user["tenantId"] for user in users] == [world.acme.tenant_id]
        assert (await world.ask("GET", "/v1/users?tenant=nope")).status == 404
        assert (await world.ask("GET", "/v1/users?tenant=")).status == 404
        own = await world.ask("GET", "/v1/users?tenant=acme", key=world.acme.admin)
        assert own.status == 200


async def test_a_body_has_a_bound_whether_it_says_its_length_or_not() -> None:
    async with open_world() as world:
        big = b'{"externalId": "' + b"x" * MAX_BODY + b'"}'
        reply = await world.ask("POST", "/v1/users", raw=big)
        assert (reply.status, set(reply.body["error"])) == (413, {"code", "message", "details", "requestId"})


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b"\xff\xfe",
        b'{"externalId": "\\ud800"}',
        b'{"externalId": "\\udc00"}',
        b"[" * 100_000,
    ],
)
async def test_a_body_that_is_none_is_refused(raw: bytes) -> None:
    async with open_world() as world:
        reply = await world.ask("POST", "/v1/users", raw=raw)
        assert (reply.status, reply.code) == (400, "invalid_input")


@pytest.mark.parametrize("query", ["tennant=acme", "limit=1&limit=2", "&".join(f"a{n}=1" for n in range(60)), "token=x"])
async def test_a_parameter_nobody_knows_or_given_twice_is_refused(query: str) -> None:
    async with open_world() as world:
        assert (await world.ask("GET", f"/v1/users?{query}")).code == "invalid_input"
        assert (await world.ask("POST", f"/v1/users?{query}", {"externalId": "x"})).code == "invalid_input"
        assert (await world.ask("GET", "/v1/users")).items == []


async def test_an_audit_log_that_cannot_be_written_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_world() as world:
        accounts = world.vm.office.store.accounts
        monkeypatch.setattr(type(world.vm.office.store), "accounts", lambda _, tenant_id: _Silent(accounts(tenant_id)))
        assert (await world.ask("PUT", "/v1/secrets/A", {"value": "x"})).code == "store_failed"
        assert (await world.ask("DELETE", "/v1/secrets/B")).code == "not_found"


class _Silent:
    """Accounts whose audit log is on a full disk."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self.audit = self

    async def add(self, entry: AuditEntry) -> None:
        raise StoreFailed("the disk is full")

    def __getattr__(self, name: str) -> object:
        return getattr(self._accounts, name)


async def test_a_crash_is_audited_and_says_nothing_of_the_insides() -> None:
    async def crash(ask: Ask[Given]) -> None:
        raise ZeroDivisionError("hush")

    async with open_world() as world:
        route = Route(method="POST", path="/v1/x", needs=(), own=False, across=False, action="x", takes=Nothing, function=crash)
        app = management_api(lambda: None, behind_gate=[Gate(world.vm, lambda: "127.0.0.1").handler(route)])
        headers = [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {world.operator}".encode())]
        reply = await request(app, "POST", "/v1/x", headers, b"")
        assert (reply.status, reply.code) == (500, "internal_error")
        assert b"hush" not in reply.raw
        assert (await world.audit())[0] == ("x", "", "refused:internal_error")


async def test_who_is_refused_again_and_again_is_entered_once_a_minute() -> None:
    async with open_world() as world:
        weak = await world.key(world.acme.tenant_id, ["images:read"])
        for _ in range(10):
            assert (await world.ask("POST", "/v1/users", {"externalId": "x"}, key=weak)).status == 403
        assert len(await world.audit(world.acme.tenant_id)) == 1
        world.clock.now += 60_000
        await world.ask("POST", "/v1/users", {"externalId": "x"}, key=weak)
        assert len(await world.audit(world.acme.tenant_id)) == 2
