"""Tool entries — the grammar of `entry` for each runtime of a tool, and its checks. Pure: nothing is fetched or run."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import msgspec

from agentvm.errors import shorten
from agentvm.errors.resource import ResourceInvalid
from agentvm.model.resource import is_digest

COMMAND_ELEMENTS_MAX = 256
SERVER_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
"""The name of an MCP server in the setting `tools.mcpServers`."""

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_AUTHORITY = re.compile(
    rf"(?P<host>{_LABEL}(?:\.{_LABEL})*|\[[0-9a-f:.]{{2,45}}\])(?::(?P<port>[1-9][0-9]{{0,4}}))?", re.IGNORECASE
)
_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_-]{0,63})\}")
SECRET_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
"""The name of a secret that a tool can use."""
_SECRET = re.compile(rf"\$\{{secret:({SECRET_NAME.pattern})\}}")
_SEGMENT = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2}|\{[A-Za-z_][A-Za-z0-9_-]{0,63}\})*")
_TOOL = re.compile(r"[^\x00-\x20#]{1,200}")


@dataclass(frozen=True, slots=True)
class WebAddress:
    """A literal address: scheme, host and port are never filled in by a model."""

    scheme: str
    host: str
    port: int | None
    path: str
    """From the first slash, without a query and a fragment."""

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.host}" + ("" if self.port is None else f":{self.port}")


@dataclass(frozen=True, slots=True)
class HttpEntry:
    """`METHOD https://host/path/{argument}`; without a method it is GET."""

    method: str
    address: WebAddress

    @property
    def arguments(self) -> tuple[str, ...]:
        """Names of the arguments in the path."""
        return tuple(_PLACEHOLDER.findall(self.address.path))


@dataclass(frozen=True, slots=True)
class McpEntry:
    """`https://host/path[#tool]`, or `stdio:<server>[#tool]` for a server that the operator has set up."""

    address: WebAddress | None
    server: str | None
    tool: str | None
    """One tool of the server; None for all of them."""


@dataclass(frozen=True, slots=True)
class OpenApiEntry:
    """`https://host/openapi.json@sha256:…`, or `blob:sha256:…` for a document in the version itself."""

    address: WebAddress | None
    digest: str


def parse_http(entry: str) -> HttpEntry:
    method, _, url = entry.rpartition(" ")
    method = method or "GET"
    if method not in _METHODS:
        raise ResourceInvalid(
            f"entry: {shorten(method)!r} is not a method; write for example GET https://api.example.org/items/{{id}}"
        )
    address = parse_address(url)
    for segment in address.path.split("/"):
        if _SEGMENT.fullmatch(segment) is None or segment in (".", ".."):
            raise ResourceInvalid(f"entry: {shorten(segment)!r} is not a segment of a path; an argument is written {{name}}")
    return HttpEntry(method, address)


def parse_mcp(entry: str) -> McpEntry:
    where, hash_, tool = entry.partition("#")
    if hash_ and _TOOL.fullmatch(tool) is None:
        raise ResourceInvalid("entry: after # stands the name of one tool, without spaces")
    if where.startswith("stdio:"):
        server = where.removeprefix("stdio:")
        if SERVER_ID.fullmatch(server) is None:
            raise ResourceInvalid(
                f"entry: {shorten(server)!r} is not the name of a server; stdio servers are set up by the operator in "
                "tools.mcpServers and named here, such as stdio:files"
            )
        return McpEntry(None, server, tool or None)
    return McpEntry(parse_address(where), None, tool or None)


def parse_openapi(entry: str) -> OpenApiEntry:
    url, _, digest = entry.rpartition("@") if not entry.startswith("blob:") else ("", "", entry.removeprefix("blob:"))
    if not is_digest(digest):
        raise ResourceInvalid(
            "entry: an OpenAPI document is named with its digest: https://host/openapi.json@sha256:… or blob:sha256:…"
        )
    return OpenApiEntry(parse_address(url) if url else None, digest)


def parse_command(entry: str) -> tuple[str, ...]:
    """Returns the elements of `["git", "log", "-n", "{count}"]`. An argument fills a part of one element, never splits it."""
    try:
        elements = msgspec.json.decode(entry, type=tuple[str, ...])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ResourceInvalid('entry: a command is a JSON array of texts, such as ["git", "log", "-n", "{count}"]') from error
    if not 0 < len(elements) <= COMMAND_ELEMENTS_MAX or any("\0" in element for element in elements):
        raise ResourceInvalid(f"entry: a command has 1 to {COMMAND_ELEMENTS_MAX} elements, without NUL")
    if not elements[0] or _PLACEHOLDER.search(elements[0]):
        raise ResourceInvalid("entry: the first element is the program itself, never an argument")
    return elements


def fill(template: str, values: dict[str, str]) -> str:
    """Returns the template with `{name}` replaced; the values are not looked at again."""
    return _PLACEHOLDER.sub(lambda match: values[match[1]], template)


def arguments_of(template: str) -> Iterator[str]:
    """Yields the names of `{name}` in a text, secrets aside."""
    yield from _PLACEHOLDER.findall(_SECRET.sub("", template))


def secrets_of(template: str) -> Iterator[str]:
    """Yields the names of `${secret:NAME}` in a text."""
    yield from _SECRET.findall(template)


def check_names(member: str, names: Collection[str], declared: Collection[str], of: str) -> None:
    """Refuses a name that a template uses and the tool does not declare."""
    if unknown := next((name for name in names if name not in declared), None):
        raise ResourceInvalid(f"{member} uses {unknown!r}, which is not among {of}")


def parse_address(url: str) -> WebAddress:
    """Parses strictly: programs disagree about user names, backslashes and numeric hosts, which is how checks are passed by."""
    scheme, separator, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    match = _AUTHORITY.fullmatch(authority)
    if not separator or scheme not in ("https", "http") or match is None:
        raise ResourceInvalid(
            f"entry: {shorten(url)!r} is not an address such as https://api.example.org/path, with a literal host and without "
            "user name, query and fragment"
        )
    port = None if match["port"] is None else int(match["port"])
    if port is not None and port > 65_535:
        raise ResourceInvalid(f"entry: {port} is not a port")
    if "?" in path or "#" in path or any(letter <= " " or letter in "\\\x7f" for letter in path):
        raise ResourceInvalid(f"entry: {shorten(url)!r} has a query, a fragment, a space or a backslash in its path")
    return WebAddress(scheme, match["host"].lower(), port, slash + path)
