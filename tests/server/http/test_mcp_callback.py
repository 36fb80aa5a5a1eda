from tests.server.http.fixtures import open_world

from agentvm.tools.mcp.consent import CALLBACK, CLIENT


async def test_a_callback_without_a_consent_is_a_page_that_says_so() -> None:
    async with open_world() as world:
        for method in ("GET", "POST"):
            reply = await world.ask(method, CALLBACK, {} if method == "POST" else None, key="")
            assert (reply.status, b"has expired, or was used already" in reply.raw) == (400, True)
            assert reply.headers["content-type"] == "text/html; charset=utf-8"
            assert "script" not in reply.headers["content-security-policy"]


async def test_the_document_of_this_server_as_a_client_is_public_where_others_can_reach_it() -> None:
    async with open_world(public_url="https://avm.example/") as world:
        reply = await world.ask("GET", CLIENT, key="")
        assert (reply.status, reply.body["client_id"]) == (200, "https://avm.example/v1/mcp/client")
        assert reply.body["redirect_uris"] == ["https://avm.example/v1/mcp/callback"]
    async with open_world() as world:
        reply = await world.ask("GET", CLIENT, key="")
        assert (reply.status, "system.publicUrl" in reply.body["error"]["message"]) == (404, True)


async def test_a_body_that_is_too_large_is_not_read() -> None:
    async with open_world() as world:
        reply = await world.ask("POST", CALLBACK, {"x": "y" * 20_000}, key="")
        assert reply.status == 413
