"""Tools — the tools of agents: HTTP requests, MCP servers, the web. Nothing foreign runs in the server process."""
