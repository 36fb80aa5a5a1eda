from tests.server.http.fixtures import open_world

from agentvm.tools.mcp.consent import CALLBACK


async def test_a_callback_without_a_consent_is_a_page_that_says_so() -> None:
    async with open_world() as world:
        for method in ("GET", "POST"):
            reply = await world.ask(method, CALLBACK, {} if method == "POST" else None, key="")
            assert (reply.status, b"has expired, or was used already" in reply.raw) == (400, True)
            assert reply.headers["content-type"] == "text/html; charset=utf-8"
            assert "script" not in reply.headers["content-security-policy"]


async def test_a_body_that_is_too_large_is_not_read() -> None:
    async with open_world() as world:
        reply = await world.ask("POST", CALLBACK, {"x": "y" * 20_000}, key="")
        assert reply.status == 413
