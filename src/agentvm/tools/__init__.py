"""Tools — what an agent can call: HTTP requests, MCP servers, the web. Nothing foreign runs in the server process."""
