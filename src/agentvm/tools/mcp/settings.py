"""MCP settings — the servers that an operator lets run on this machine. A tenant names an id, never a command."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from agentvm.errors import InvalidInput, shorten
from agentvm.errors.tool import McpCommandNotAllowed
from agentvm.errors.validation import explain
from agentvm.model.base import Record
from agentvm.model.tool_settings import McpServerEntry, McpSharing
from agentvm.resources.tool_entry import SERVER_ID

_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
_ANY_PROGRAM = frozenset({"sh", "bash", "zsh", "dash", "env", "npx", "bunx", "uvx", "pipx", "sudo", "xargs", "busybox"})
"""Programs that run or fetch other programs by their arguments: the list would allow more than it shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServerSettings:
    """One server of `tools.mcpServers`, with every value."""

    argv: tuple[str, ...]
    sandbox: str | None = None
    per: McpSharing = "user"
    secrets: tuple[str, ...] = ()
    idle_seconds: float = 60.0
    max_bytes: int = 4 * 1024 * 1024


def server_settings(entries: Mapping[str, McpServerEntry]) -> dict[str, McpServerSettings]:
    """Returns the servers with the defaults filled in."""
    servers = {}
    for name, entry in entries.items():
        values: dict[str, Any] = {
            "sandbox": entry.sandbox,
            "per": entry.per,
            "secrets": entry.secrets,
            "idle_seconds": entry.idle_seconds,
            "max_bytes": None if entry.max_kilobytes is None else entry.max_kilobytes * 1024,
        }
        members = {member: value for member, value in values.items() if value is not None}
        servers[name] = McpServerSettings(argv=entry.argv or (), **members)
    return servers


def server_faults(entries: Mapping[str, McpServerEntry]) -> Iterator[tuple[str, str]]:
    """Yields the key and the reason of each setting that cannot be used."""
    for name, server in server_settings(entries).items():
        key = f"tools.mcpServers.{name}"
        if SERVER_ID.fullmatch(name) is None:
            yield key, "an id has a-z, 0-9, _ and -, up to 64 characters"
        program = server.argv[0] if server.argv else ""
        if not program.startswith("/") or any("\0" in element for element in server.argv):
            yield f"{key}.argv", "it must begin with the whole path of a program, such as /usr/bin/node"
        elif program.rpartition("/")[2] in _ANY_PROGRAM:
            yield f"{key}.argv", f"{program} runs or fetches any program; name the server's own program"
        if wrong := next((secret for secret in server.secrets if not _VARIABLE.fullmatch(secret)), None):
            yield f"{key}.secrets", f"{shorten(wrong)!r} is not the name of a variable, such as API_KEY"
        if server.secrets and server.per == "server":
            yield f"{key}.per", "secrets belong to a tenant; share the process per tenant or per user"


def allowed_server(argv: Sequence[str], servers: Mapping[str, McpServerSettings]) -> str:
    """Returns the id of the server with exactly this command; `McpCommandNotAllowed` if there is none.

    Element by element, without any normalisation: lists of forbidden flags have all been passed by.
    """
    for server_id, server in servers.items():
        if server.argv == tuple(argv):
            return server_id
    raise McpCommandNotAllowed(
        f"The command {shorten(' '.join(argv))} is not allowed for MCP servers; an operator can list it under tools.mcpServers"
    )


class LegacyServer(Record, forbid_unknown_fields=True):
    """An entry of `mcpServers` in the configuration of a 1.x image."""

    type: Literal["stdio", "http", "streamable-http", "sse"] | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = msgspec.field(default_factory=dict)
    url: str | None = None
    headers: dict[str, str] = msgspec.field(default_factory=dict)


def legacy_entries(raw: object, servers: Mapping[str, McpServerSettings]) -> dict[str, str]:
    """Returns the `entry` of each server of a 1.x image: `stdio:<id>` or an address. Any other is refused, never ignored."""
    try:
        legacy = msgspec.convert(raw, dict[str, LegacyServer])
    except msgspec.ValidationError as error:
        raise InvalidInput(f"mcpServers: {explain(error, dict[str, LegacyServer])}") from None
    entries = {}
    for name, entry in legacy.items():
        if entry.url is not None and entry.command is None:
            if entry.headers or entry.type == "sse":
                raise McpCommandNotAllowed(
                    f"mcpServers.{shorten(name)}: headers and the transport sse are not supported; "
                    "publish a tool with the runtime mcp, whose users sign in"
                )
            entries[name] = entry.url
        elif entry.command is not None and entry.url is None:
            if entry.env:
                raise McpCommandNotAllowed(f"mcpServers.{shorten(name)}: variables are set by the operator, not by an image")
            entries[name] = f"stdio:{allowed_server((entry.command, *entry.args), servers)}"
        else:
            raise McpCommandNotAllowed(f"mcpServers.{shorten(name)} needs a url or a command, and not both")
    return entries
