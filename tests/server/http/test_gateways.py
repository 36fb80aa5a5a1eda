import pytest
from tests.server.http.fixtures import open_world

from agentvm.gateways.routes import BODY_MAX_BYTES
from agentvm.model.gateway_settings import GatewaySettings
from agentvm.server.http import FACES
from agentvm.server.http.gateways import GATEWAYS, gateway_of, places

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
        asked = [*page, (b"access-control-request-method", b"POST")]
        preflight = await world.ask("OPTIONS", "/openai/v1/chat/completions", key="", headers=asked)
        assert (preflight.status, preflight.headers["access-control-allow-methods"]) == (204, "OPTIONS, POST")
        assert "access-control-allow-origin" not in (await world.ask("OPTIONS", "/v1/images", key="", headers=asked)).headers


async def test_a_gateway_that_is_switched_off_is_not_there() -> None:
    async with open_world() as world:
        assert (await world.ask("PUT", "/v1/config", {"changes": {"gateways": {"openai": {"enabled": "off"}}}})).status == 200
        for path in ("/v1/models", "/openai/v1/models"):
            assert (await world.ask("GET", path, key=world.acme.user)).status == 404


async def test_names_that_clients_choose_mean_nothing_to_another_tenant() -> None:
    chat = {"id": "c", "messages": [{"role": "user", "parts": [{"type": "text", "text": "x"}]}]}
    run = {"threadId": "c", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "x"}]}
    async with open_world() as world:
        sessions: list[set[str]] = []
        for key in (world.acme.admin, world.bolt.admin):
            asked = [
                await world.ask("POST", path, body, key=key)
                for path, body in (("/ai-sdk/default", chat), ("/ag-ui/default", run))
            ]
            assert [reply.status for reply in asked] == [200, 200]
            sessions.append({reply.headers["x-avm-session"] for reply in asked})
        assert sessions[0].isdisjoint(sessions[1])
        other = {**chat, "id": "d"}
        await world.ask("POST", "/ai-sdk/default", other, key=world.acme.admin)
        taken, absent = [
            await world.ask("GET", f"/ai-sdk/default/{name}/stream", key=world.bolt.admin) for name in ("d", "never")
        ]
        assert (taken.status, taken.raw) == (absent.status, absent.raw) == (204, b"")
