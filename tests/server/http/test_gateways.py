import pytest
from tests.gateways.test_repeats import requests
from tests.server.http.fixtures import open_world

from agentvm.gateways.routes import BODY_MAX_BYTES
from agentvm.model.gateway_settings import GatewaySettings
from agentvm.server.http import FACES
from agentvm.server.http.gateways import GATEWAYS, gateway_of, places
from agentvm.storage.sessions import SessionQuery

CHAT = {"model": "default", "messages": [{"role": "user", "content": "hi"}]}


def test_the_words_of_gateways_are_none_of_the_management_api() -> None:
    words = {place.split("/")[2] for place, _ in places() if place.startswith("/v1/")}
    assert words & {face.path.split("/")[2] for face in FACES if face.path.startswith("/v1/")} == set()
    assert {"models", "chat"} <= words


def test_every_gateway_has_a_switch() -> None:
    assert {gateway.name for gateway in GATEWAYS} == set(GatewaySettings.__dataclass_fields__)
    assert gateway_of("/v1/chat/completions") is GATEWAYS[0]
    assert gateway_of("/v1/chats") is gateway_of("/v1") is None


@pytest.mark.parametrize("prefix", ["/openai/v1", "/v1"])
async def test_failures_of_the_router_have_the_shape_of_the_dialect(prefix: str) -> None:
    async with open_world() as world:
        for method, path, status in (
            ("GET", "/chat/nowhere", 404),
            ("GET", "/chat/completions", 405),
            ("POST", "/models", 405),
        ):
            reply = await world.ask(method, f"{prefix}{path}", key=world.acme.user)
            assert reply.status == status
            assert set(reply.body["error"]) == {"message", "type", "param", "code"}
        unknown = await world.ask("POST", f"{prefix}/chat/completions", CHAT, key="nonsense")
        assert (unknown.status, unknown.code) == (401, "invalid_api_key")


async def test_a_giant_or_malformed_body_is_refused() -> None:
    async with open_world() as world:
        path = "/openai/v1/chat/completions"
        giant = await world.ask("POST", path, raw=b" " * (BODY_MAX_BYTES + 1), key=world.acme.user)
        assert (giant.status, giant.body["error"]["type"]) == (413, "invalid_request_error")
        for raw in (b"{", b"[]", b'{"model":1}', b'{"model":"\\ud800","messages":[]}'):
            reply = await world.ask("POST", path, raw=raw, key=world.acme.user)
            assert (reply.status, reply.code) == (400, "invalid_input"), raw[:40]
        assert (await world.ask("POST", path, raw=b"[" * 300_000, key=world.acme.user)).status == 413
        many = await world.ask("POST", path, raw=b'{"messages":[' + b"1," * 200_001 + b"1]}", key=world.acme.user)
        assert many.status == 413


SHAPES: dict[str, tuple[str, set[str]]] = {
    "openai": ("/openai/v1/responses", {"error"}),
    "anthropic": ("/anthropic/v1/messages", {"type", "error", "request_id"}),
    "mcp": ("/mcp/default", {"jsonrpc", "id", "error"}),
    "langgraph": ("/langgraph/runs/stream", {"detail", "error", "message"}),
    "agui": ("/ag-ui/default", {"type", "message", "code"}),
    "ai_sdk": ("/ai-sdk/default", {"error"}),
    "a2a": ("/a2a/default/", {"jsonrpc", "id", "error"}),
}
"""A path of each gateway that takes a body, and the members of its errors."""


async def test_what_no_gateway_can_read_is_refused_in_the_shape_of_each() -> None:
    assert SHAPES.keys() == {gateway.name for gateway in GATEWAYS}
    bodies = (b"{", b"[]", b"null", b"", b"\xff", b'{"a":"\\ud800"}', b"[" * 200_001, b" " * (BODY_MAX_BYTES + 1))
    async with open_world() as world:
        for path, members in SHAPES.values():
            for raw in bodies:
                reply = await world.ask("POST", path, raw=raw, key=world.acme.user)
                about = (path, raw[:20])
                assert reply.status in ((413,) if len(raw) > 100 else (400, 422)), about
                assert set(reply.body) == members, about
                assert not any(word in reply.raw for word in (b"Traceback", b"agentvm.", b".py")), about
            assert set((await world.ask("PATCH", path, key=world.acme.user)).body) == members, path
        assert (await world.ask("GET", "/v1/turns", key=world.acme.admin)).items == []


async def test_a_first_message_that_is_refused_leaves_no_conversation_behind() -> None:
    wrong = {**requests(""), "run": ("/v1/run", {"content": "x", "keep": True, "options": {"model": "m"}}, {})}
    async with open_world() as world:
        key = world.acme.admin
        # It builds the agent, with its default session.
        assert (await world.ask("POST", "/v1/messages", {"content": "x"}, key=key)).status == 200
        store = world.vm.tenancy.store.tenant(world.acme.tenant_id).sessions(None)
        before = await store.list(SessionQuery(archived=None))
        for name, (path, body, about) in wrong.items():
            headers = [(header.encode(), name.encode()) for header in about]
            reply = await world.ask("POST", path, body, key=key, headers=headers)
            assert reply.status in (400, 422) or b'"error":{"code":-32602' in reply.raw, name
            assert await store.list(SessionQuery(archived=None)) == before, name


async def test_pages_of_allowed_origins_use_gateways_and_not_the_management_api() -> None:
    async with open_world() as world:
        page = [(b"origin", b"https://app.example")]
        refused = await world.ask("GET", "/v1/models", key=world.acme.user, headers=page)
        assert refused.status == 403
        assert "access-control-allow-origin" not in refused.headers
        changes = {"system": {"allowOrigins": ["https://app.example"]}}
        assert (await world.ask("PUT", "/v1/config", {"changes": changes})).status == 200
        allowed = await world.ask("GET", "/v1/models", key=world.acme.user, headers=page)
        assert (allowed.status, allowed.headers["access-control-allow-origin"]) == (200, "https://app.example")
        # By this header the clients of OpenAI know that a turn has begun: without it they would begin another.
        assert "X-Should-Retry" in allowed.headers["access-control-expose-headers"].split(", ")
        asked = [*page, (b"access-control-request-method", b"POST")]
        preflight = await world.ask("OPTIONS", "/openai/v1/chat/completions", key="", headers=asked)
        assert (preflight.status, preflight.headers["access-control-allow-methods"]) == (204, "OPTIONS, POST")
        assert "access-control-allow-origin" not in (await world.ask("OPTIONS", "/v1/images", key="", headers=asked)).headers


async def test_a_gateway_that_is_switched_off_is_not_there() -> None:
    async with open_world() as world:
        assert (await world.ask("PUT", "/v1/config", {"changes": {"gateways": {"openai": {"enabled": "off"}}}})).status == 200
        for path in ("/v1/models", "/openai/v1/models"):
            assert (await world.ask("GET", path, key=world.acme.user)).status == 404
