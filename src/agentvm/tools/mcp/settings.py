"""MCP settings — the servers that an operator lets run on this machine. A tenant names an id, never a command."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec

from agentvm.errors import ConfigInvalid, InvalidInput, shorten
from agentvm.errors.tool import McpCommandNotAllowed
from agentvm.errors.validation import explain
from agentvm.model.base import Record
from agentvm.resources.tool_entry import SERVER_ID
from agentvm.tools.mcp.pool import IDLE_SECONDS

ARGV_MAX = 64
SERVERS_MAX = 200
_ID = SERVER_ID
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
_ANY_PROGRAM = frozenset({"sh", "bash", "zsh", "dash", "env", "npx", "bunx", "uvx", "pipx", "sudo", "xargs", "busybox"})
"""Programs that run whatever their arguments say, or fetch it first: the list would allow more than it shows."""


class McpServerSettings(Record, forbid_unknown_fields=True):
    """One server of `tools.mcpServers`."""

    argv: Annotated[tuple[Annotated[str, msgspec.Meta(max_length=4096)], ...], msgspec.Meta(min_length=1, max_length=ARGV_MAX)]
    sandbox: Annotated[str, msgspec.Meta(max_length=512)] | None = None
    per: Literal["server", "tenant", "user"] = "user"
    """Sharing of a process: by everybody, by the users of a tenant, or by nobody."""
    secrets: Annotated[tuple[str, ...], msgspec.Meta(max_length=100)] = ()
    """Names of secrets that the program finds in its environment."""
    idle_seconds: Annotated[float, msgspec.Meta(gt=0, le=86_400)] = IDLE_SECONDS
    max_bytes: Annotated[int, msgspec.Meta(ge=1024, le=64 * 1024 * 1024)] = 4 * 1024 * 1024


def parse_servers(raw: object) -> dict[str, McpServerSettings]:
    """Parses the setting; `ConfigInvalid` names the server and the fault."""
    if not isinstance(raw, Mapping) or len(raw) > SERVERS_MAX:
        raise ConfigInvalid(f"tools.mcpServers must be a mapping of at most {SERVERS_MAX} servers")
    return {_checked_id(name): _parse(f"tools.mcpServers.{name}", entry) for name, entry in raw.items()}


def _checked_id(name: object) -> str:
    if not isinstance(name, str) or _ID.fullmatch(name) is None:
        raise ConfigInvalid(f"tools.mcpServers: {shorten(str(name))!r} is not an id; use a-z, 0-9, _ and -, up to 64")
    return name


def _parse(where: str, entry: object) -> McpServerSettings:
    try:
        server = msgspec.convert(entry, McpServerSettings)
    except msgspec.ValidationError as error:
        raise ConfigInvalid(f"{where}: {explain(error, McpServerSettings)}") from None
    program = server.argv[0]
    if not program.startswith("/") or any("\0" in element for element in server.argv):
        raise ConfigInvalid(f"{where}.argv: the program is named by its whole path, such as /usr/bin/node")
    if program.rpartition("/")[2] in _ANY_PROGRAM:
        raise ConfigInvalid(f"{where}.argv: {program} runs or fetches any program; name the server's own program")
    if wrong := next((name for name in server.secrets if not _VARIABLE.fullmatch(name)), None):
        raise ConfigInvalid(f"{where}.secrets: {shorten(wrong)!r} is not the name of a variable")
    if server.secrets and server.per == "server":
        raise ConfigInvalid(f"{where}: secrets belong to a tenant; share the process per tenant or per user")
    return server


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


class LegacyServer(Record):
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
        given = msgspec.convert(raw, dict[str, LegacyServer])
    except msgspec.ValidationError as error:
        raise InvalidInput(f"mcpServers: {explain(error, dict[str, LegacyServer])}") from None
    entries = {}
    for name, entry in given.items():
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
