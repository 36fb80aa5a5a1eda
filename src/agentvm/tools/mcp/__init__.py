"""MCP — tools of other people's servers: connections, leases, pinned lists, consent.

Modules that import the `mcp` package (`connection`, `stdio`, `oauth`, `results`) are imported with the first connection.
"""
