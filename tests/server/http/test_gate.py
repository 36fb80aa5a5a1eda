from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

import pytest
from tests.server.http.faces import face
from tests.server.http.fixtures import Reply, World, open_world, request

from agentvm.errors import StoreFailed
from agentvm.model.account import AuditEntry
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.operations.context import Context
from agentvm.operations.http_face import HttpFace
from agentvm.operations.http_reply import HttpReply
from agentvm.operations.operation import Empty, Http
from agentvm.protocol.requests import Request
from agentvm.server.http import FACES
from agentvm.server.http.api import CALLED, FORMS, PUBLIC, ManagementApi
from agentvm.server.http.body import BODY_MAX_BYTES
from agentvm.server.http.gateways import GATEWAYS
from agentvm.server.http.protected_resource import METADATA_PATHS
from agentvm.storage.sql.accounts import Accounts
from agentvm.tools.mcp.consent import CALLBACK


async def test_all_that_is_served_is_behind_the_gate_but_the_public_paths() -> None:
    async with open_world() as world:
        served = {
            f"{route.method} {route.path.replace(':path', '')}"
            for route in world.app.http.routes
            if route.is_gated and route.method != "HEAD"
        }
        gateways = {f"{route.method} {path.replace(':path', '')}" for gateway in GATEWAYS for path, route in gateway.paths()}
        sockets = {"POST /ws", "POST /ws/{link}"}
        assert served == {one.name for one in FACES} | gateways | sockets
        public = {"/health", "/ready", "/ws", "/openapi.json", "/docs", "/v1/auth/methods"}
        assert public | FORMS | CALLED | {*METADATA_PATHS} == PUBLIC
        # A callback without a state, and a link that nobody made.
        assert (await world.ask("GET", CALLBACK, key="")).status == 400
        assert (await world.ask("GET", "/answer/nothing", key="")).status == 410
        assert (await world.ask("POST", "/hooks/telegram/nothing", {}, key="")).status == 404
        for path in PUBLIC - FORMS - CALLED:
            assert (await world.ask("GET", path.replace("{agent:path}", "a"), key="")).status in (200, 426)


def test_what_writes_is_audited() -> None:
    silent = {one.name for one in FACES if one.method != "GET" and one.operation.audit is None}
    reading = {
        "POST /v1/tenants/get",
        "POST /v1/tenants/list",
        "POST /v1/resources/resolve",
        "POST /v1/auth/invitation",
        "POST /v1/usage/reconcile",
        "POST /v1/auth/oidc/start",
    }
    # Saved with every pause in somebody's typing, and read by nobody else.
    drafts = {f"{method} /v1/sessions/{{session_id}}/draft" for method in ("PUT", "DELETE")}
    # A mark of how far somebody has read is theirs alone.
    marks = {"POST /v1/sessions/{session_id}/read"}
    # So is the look of the console.
    looks = {"PUT /v1/auth/preferences"}
    # Bookings of the edge: the ledger is their record.
    booked = {"POST /v1/usage/entries"}
    # As the command: what it creates on the way is audited by itself.
    said = {"POST /v1/messages", "POST /v1/run", "POST /v1/triggers/{trigger_id}"}
    # As the command; an agent that is stopped starts again with the next message.
    stopped = {"POST /v1/images/{image_id}/stop"}
    # So is what somebody thinks of an answer.
    rated = {f"{method} /v1/turns/{{turn_id}}/feedback" for method in ("PUT", "DELETE")}
    assert silent == {"POST /v1/auth/ws-token", *reading, *drafts, *marks, *looks, *said, *stopped, *rated, *booked}
    # What leaves the server is no less than what is written.
    assert {one.name for one in FACES if one.method == "GET" and one.operation.audit} == {
        "GET /v1/export",
        "GET /v1/images/{image_id}/file",
        "GET /v1/sessions/{session_id}/archive",
        "GET /v1/auth/oidc/callback",
    }


async def test_a_request_has_one_id_in_its_answer_its_error_and_the_audit_log() -> None:
    async with open_world() as world:
        reply = await world.ask("DELETE", "/v1/secrets/NONE", headers=[(b"x-request-id", b"mine")])
        assert reply.body["error"]["requestId"] == reply.headers["x-request-id"] != "mine"
        (entry,) = await world.vm.tenancy.store.accounts(DEFAULT_TENANT).audit.list()
        assert entry[1].request_id == reply.headers["x-request-id"]
        assert (await world.ask("GET", "/v1/users")).headers["x-request-id"] != reply.headers["x-request-id"]
        assert "x-request-id" in (await world.ask("GET", "/health", key="")).headers


async def test_a_refusal_is_audited_with_its_code() -> None:
    async with open_world() as world:
        acme = world.acme
        await world.ask("POST", "/v1/users", {"externalId": "x"}, key=acme.user)
        await world.ask("POST", "/v1/users", {"nonsense": 1}, key=acme.admin)
        world.clock.now += 60_000
        await world.ask("POST", "/v1/users", raw=b"x" * (BODY_MAX_BYTES + 1), key=acme.admin)
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
        big = b'{"externalId": "' + b"x" * BODY_MAX_BYTES + b'"}'
        reply = await world.ask("POST", "/v1/users", raw=big)
        assert (reply.status, set(reply.body["error"])) == (413, {"code", "message", "details", "requestId"})
        assert f"at most {BODY_MAX_BYTES:,} bytes" in reply.body["error"]["message"]


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
    ],
)
async def test_a_body_that_is_none_is_refused(raw: bytes) -> None:
    async with open_world() as world:
        reply = await world.ask("POST", "/v1/users", raw=raw)
        assert (reply.status, reply.code) == (400, "invalid_input")


@pytest.mark.parametrize(
    "raw",
    [
        b"[" * 100_000,
        b'{"externalId": "x", "name": ' + b'{"a":' * 5_000 + b"1" + b"}" * 5_001,
        b'{"externalId": "x", "name": [' + b"[]," * 100_000 + b"[]]}",
    ],
)
async def test_a_body_of_too_many_values_or_levels_is_refused_before_it_is_built(raw: bytes) -> None:
    async with open_world() as world:
        reply = await world.ask("POST", "/v1/users", raw=raw)
        assert (reply.status, reply.code) == (413, "input_too_large")


async def test_what_a_request_brings_and_takes_is_charged_while_it_is_there() -> None:
    async with open_world() as world:
        budget = world.vm.budget
        body = b'{"externalId": "ann", "name": "' + b"x" * 200_000 + b'"}'
        assert budget.reserve(DEFAULT_TENANT, budget.share_bytes - 50_000)
        assert (await world.ask("POST", "/v1/users", raw=body)).code == "server_busy"
        budget.release(DEFAULT_TENANT, budget.share_bytes - 50_000)
        assert (await world.ask("POST", "/v1/users", raw=body)).status == 400
        assert budget.reserved == 0


@pytest.mark.parametrize("query", ["tennant=acme", "limit=1&limit=2", "&".join(f"a{n}=1" for n in range(60)), "token=x"])
async def test_a_parameter_nobody_knows_or_given_twice_is_refused(query: str) -> None:
    async with open_world() as world:
        assert (await world.ask("GET", f"/v1/users?{query}")).code == "invalid_input"
        assert (await world.ask("POST", f"/v1/users?{query}", {"externalId": "x"})).code == "invalid_input"
        assert (await world.ask("GET", "/v1/users")).items == []


@pytest.mark.parametrize("path", ["/v1/sessions?pinned=null", "/v1/sessions?pinned=NULL"])
async def test_a_flag_that_is_null_is_not_taken_for_absent(path: str) -> None:
    async with open_world() as world:
        reply = await world.ask("GET", path)
        assert (reply.status, reply.code) == (400, "invalid_input")
        assert "pinned must not be null" in reply.body["error"]["message"]


async def test_an_audit_log_that_cannot_be_written_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_world() as world:
        accounts = world.vm.tenancy.store.accounts
        monkeypatch.setattr(type(world.vm.tenancy.store), "accounts", lambda _, tenant_id: _Silent(accounts(tenant_id)))
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


class Wish(Request[object]):
    name: str = "none"
    dry_run: bool = False


class Named(Request[object]):
    thing: str


class Asking(Protocol):
    async def __call__(
        self, method: str, path: str, body: bytes = b"", headers: Sequence[tuple[bytes, bytes]] = ()
    ) -> Reply: ...


@asynccontextmanager
async def serving(*faces: HttpFace) -> AsyncIterator[tuple[World, Asking]]:
    """A world where these operations are served, and how its operator asks for them."""
    async with open_world() as world:
        served = [route for one in faces for route in world.app.gate.routes(one)]
        world.app.http = ManagementApi(served, lambda _: None)
        known = [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {world.operator}".encode())]

        async def ask(method: str, path: str, body: bytes = b"", headers: Sequence[tuple[bytes, bytes]] = ()) -> Reply:
            return await request(world.app, method, path, [*known, *headers], body)

        yield world, ask


async def test_a_body_may_have_a_query_beside_it() -> None:
    async def make(context: Context, request: Wish) -> dict[str, object]:
        return {"name": request.name, "dry": request.dry_run, "tenant": context.tenant_id}

    async with serving(face(make, Http("POST", "/v1/x", query=("dry_run",)))) as (_, ask):
        reply = await ask("POST", "/v1/x?dryRun=true&tenant=acme", b'{"name": "a"}')
        assert reply.body == {"name": "a", "dry": True, "tenant": "ten_acme"}
        assert (await ask("POST", "/v1/x", b"{}")).body["dry"] is False
        for query in ("dryRun=maybe", "dry_run=true", "name=a"):
            assert (await ask("POST", f"/v1/x?{query}", b"{}")).code == "invalid_input"


async def test_a_body_may_be_bytes_with_a_bound_of_its_own() -> None:
    async def count(context: Context, request: Empty) -> HttpReply[bytes]:
        body = context.http.body
        return HttpReply(content=body[:4] + str(len(body)).encode(), media_type="image/png")

    large, small = BODY_MAX_BYTES * 2, 10
    served = (
        face(count, Http("POST", "/v1/large", body="bytes", max_body_bytes=large)),
        face(count, Http("PUT", "/v1/small", body="bytes", max_body_bytes=small)),
    )
    async with serving(*served) as (_, ask):
        reply = await ask("POST", "/v1/large", b"\xff\x00{" + b"x" * (large - 3))
        assert (reply.status, reply.headers["content-type"]) == (200, "image/png")
        assert reply.raw == b"\xff\x00{x" + str(large).encode()
        assert (await ask("POST", "/v1/large", b"x" * (large + 1))).status == 413
        assert (await ask("PUT", "/v1/small", b"x" * small)).status == 200
        assert (await ask("PUT", "/v1/small", b"x" * (small + 1))).status == 413


async def test_an_answer_has_headers_and_knows_what_the_asker_has() -> None:
    async def get(context: Context, request: Empty) -> HttpReply[bytes | None]:
        headers = {"ETag": '"1"', "Cache-Control": "private, no-cache"}
        if context.http.if_none_match == '"1"':
            return HttpReply(content=None, status=304, headers=headers)
        return HttpReply(content=str(context.http.if_match).encode(), media_type="text/plain", headers=headers)

    async with serving(face(get, Http("GET", "/v1/x", statuses=(200, 304)))) as (_, ask):
        reply = await ask("GET", "/v1/x", headers=[(b"if-match", b"*")])
        assert (reply.raw, reply.headers["etag"], reply.headers["cache-control"]) == (b"*", '"1"', "private, no-cache")
        same = await ask("GET", "/v1/x", headers=[(b"if-none-match", b'"1"')])
        assert (same.status, same.raw, same.headers["etag"]) == (304, b"", '"1"')
        assert (await ask("GET", "/v1/x")).raw == b"None"


async def test_a_name_in_a_path_may_hold_encoded_slashes() -> None:
    async def tell(context: Context, request: Named) -> dict[str, str]:
        return {"thing": request.thing, "target": context.target}

    async with serving(face(tell, Http("GET", "/v1/things/{thing}/versions"))) as (_, ask):
        reply = await ask("GET", "/v1/things/resource%3A%2F%2Fprompts%2Fx/versions")
        assert reply.body == {"thing": "resource://prompts/x", "target": "resource://prompts/x"}
        assert (await ask("GET", "/v1/things/a%252Fb/versions")).body["thing"] == "a%2Fb"
        assert (await ask("GET", "/v1/things/%2E%2E%2Fa/versions")).body["thing"] == "../a"
        for path in ("/v1/things/a/b/versions", "/v1%2Fthings/a/versions", "/v1/things/a%2Fversions"):
            assert (await ask("GET", path)).status == 404
        lost = await ask("GET", "/v1/nope/a%2Fb")
        assert lost.body["error"]["message"] == "Not Found: GET /v1/nope/a%2Fb"


async def test_a_crash_is_audited_and_says_nothing_of_the_insides() -> None:
    async def crash(context: Context, request: Empty) -> None:
        raise ZeroDivisionError("hush")

    async with serving(face(crash, Http("POST", "/v1/x"), across=False, audit="x")) as (world, ask):
        reply = await ask("POST", "/v1/x")
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
