"""Tool — the properties of a tool that decide about its calls: an approval, a tier, and whether it may be repeated."""

from typing import Literal

ToolRuntime = Literal[
    "builtin", "http", "openapi", "mcp", "python", "javascript", "shell", "command", "agent", "client", "provider"
]
"""The kind of a tool: who runs a call, and how."""

Effect = Literal["read", "write", "destructive"]
"""The most that a call can change."""

World = Literal["closed", "open"]
"""Whether a call reaches beyond this server. The result of an open tool is untrusted text."""

Repeat = Literal["never", "safe", "keyed"]
"""Whether a call whose result was lost may be made again: never, always, or with the same idempotency key."""

OPEN_RUNTIMES: frozenset[ToolRuntime] = frozenset({"http", "openapi", "mcp", "provider"})
"""Runtimes whose tools are open unless their author says otherwise."""


def default_world(runtime: ToolRuntime) -> World:
    return "open" if runtime in OPEN_RUNTIMES else "closed"


def default_repeat(effect: Effect) -> Repeat:
    return "safe" if effect == "read" else "never"
