from tests.cli.desk import open_desk

URL = "https://mcp.example/mcp"


async def test_connections_are_listed_and_ended() -> None:
    async with open_desk() as desk:
        assert await desk.record("mcp", "list") == []
        assert "No connections to MCP servers." in (await desk.avm("mcp", "list")).err
        unknown = await desk.avm("mcp", "list", "--user", "nobody")
        assert (unknown.code, "User not found: nobody" in unknown.err) == (5, True)
        refused = await desk.avm("mcp", "disconnect", URL, "--yes")
        assert (refused.code, "MCP connection not found: https://mcp.example/mcp" in refused.err) == (5, True)
