import httpx2
import pytest
from mcp.shared.exceptions import MCPError
from tests.gateways.mcp.fixtures import ERAS, calling, handshake, stateless, tools_of
from tests.server.http.fixtures import open_world
from tests.support.serving import serving


@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_learns_the_server_in_its_era(mode: str) -> None:
    async with calling(mode=mode) as (client, _):
        assert client.protocol_version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
        assert client.server_info is not None
        assert client.server_info.name == "agentvm"
        assert "sessionId" in (client.instructions or "")
        tools = await tools_of(client)
        assert {"ask_default", "search_sessions", "read_session"} <= set(tools)
        assert client.server_capabilities.prompts is not None


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "1999-01-01"])
async def test_the_handshake_agrees_on_a_version_and_refuses_no_name(version: str) -> None:
    async with serving() as served, httpx2.AsyncClient(base_url=served.http) as http:
        about = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        reply = await http.post("/mcp", json=handshake("initialize", **about))
        assert reply.json()["result"]["protocolVersion"] == (version if version != "1999-01-01" else "2025-11-25")
        name = reply.headers["mcp-session-id"]
        again = await http.post("/mcp", json=handshake("initialize", **about), headers={"mcp-session-id": "any"})
        assert again.headers["mcp-session-id"] not in (name, "any")
        assert (await http.post("/mcp", json=handshake("ping"))).json() == {"jsonrpc": "2.0", "id": 1, "result": {}}
        told = await http.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert (told.status_code, told.content) == (202, b"")
        for method in ("GET", "DELETE"):
            closed = await http.request(method, "/mcp")
            assert (closed.status_code, closed.json()["error"]["code"]) == (405, -32601)


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"{", -32700),
        (b"\xff", -32700),
        (b"[]", -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
        (b'{"id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', -32600),
        (b"[" * 1000, -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"nothing/known"}', -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"server/discover"}', -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///etc/passwd"}}', -32602),
    ],
)
async def test_a_message_that_is_none_is_refused_as_json_rpc(raw: bytes, code: int) -> None:
    async with serving() as served, httpx2.AsyncClient(base_url=served.http) as http:
        reply = await http.post("/mcp", content=raw)
        error = reply.json()["error"]
        assert error["code"] == code
        assert "Traceback" not in reply.text
        assert reply.status_code in ((400, 413) if code in (-32600, -32700) else (200,))


async def test_the_stateless_era_has_no_methods_of_the_handshake() -> None:
    async with serving() as served, httpx2.AsyncClient(base_url=served.http) as http:
        for method in ("initialize", "ping", "logging/setLevel", "subscriptions/listen"):
            body, headers = stateless(method)
            reply = await http.post("/mcp", json=body, headers=headers)
            assert (reply.status_code, reply.json()["error"]["code"]) == (404, -32601)
        body, headers = stateless("tools/list")
        listed = (await http.post("/mcp", json=body, headers=headers)).json()["result"]
        assert (listed["cacheScope"], listed["resultType"]) == ("private", "complete")


async def test_a_page_of_a_foreign_origin_is_refused() -> None:
    async with serving() as served, httpx2.AsyncClient(base_url=served.http) as http:
        reply = await http.post("/mcp", json=handshake("ping"), headers={"Origin": "https://evil.example"})
        assert (reply.status_code, reply.json()["error"]["data"]) == (403, {"code": "access_denied"})
        renamed = await http.post("/mcp", json=handshake("ping"), headers={"Host": "evil.example"})
        assert renamed.status_code == 403


async def test_what_is_listed_is_what_the_caller_may_do() -> None:
    async with open_world() as world:
        keys = {
            "agent:use": await world.key(world.acme.tenant_id, ["agent:use"]),
            "sessions:read": await world.key(world.acme.tenant_id, ["sessions:read"]),
        }
        names: dict[str, set[str]] = {}
        for permission, key in keys.items():
            reply = await world.ask("POST", "/mcp", handshake("tools/list"), key=key)
            names[permission] = {tool["name"] for tool in reply.body["result"]["tools"]}
            for method, member in (("resources/list", "resources"), ("prompts/list", "prompts")):
                empty = await world.ask("POST", "/mcp", handshake(method), key=key)
                assert empty.body["result"] == {member: []}
        assert names["sessions:read"] == {"search_sessions", "read_session"}
        assert "ask_default" in names["agent:use"]
        assert not names["agent:use"] & names["sessions:read"]


@pytest.mark.parametrize(
    ("tool", "member", "more"), [("read_session", "id", {}), ("ask_default", "session_id", {"message": "x"})]
)
async def test_a_session_of_another_tenant_is_refused_before_as_if_there_were_none(
    tool: str, member: str, more: dict[str, str]
) -> None:
    async with open_world() as world:
        await world.hide(world.acme)
        answers = []
        for session_id in (world.acme.session_id, "sess_absent"):
            message = handshake("tools/call", name=tool, arguments={member: session_id, **more})
            reply = await world.ask("POST", "/mcp", message, key=world.bolt.admin)
            assert reply.body["error"]["data"] == {"code": "session_not_found"}
            answers.append((reply.status, reply.raw.replace(session_id.encode(), b"")))
        assert answers[0] == answers[1]


async def test_the_gateway_can_be_switched_off() -> None:
    async with calling() as (client, served):
        async with httpx2.AsyncClient(base_url=served.http) as http:
            changed = await http.put("/v1/config", json={"changes": {"gateways.mcp.enabled": "off"}})
            assert changed.is_success, changed.text
        with pytest.raises(MCPError) as failure:
            await client.list_tools(cache_mode="bypass")
        assert failure.value.code == -32601
