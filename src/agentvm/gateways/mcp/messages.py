"""MCP messages — JSON-RPC in two eras at one address, told apart by each message alone. Pure.

Theory of operation. Since 2026-07-28 every request tells its version, in a header and in `_meta`, and there are no sessions of
the protocol. Before, a client begins with `initialize`; it is answered, and nothing is remembered. A header must agree with
the body: a proxy in front of the server may have decided by the header.
"""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from agentvm.errors import InvalidInput
from agentvm.errors.validation import explain
from agentvm.gateways.mcp.errors import McpCode, MessageRefused
from agentvm.gateways.routes import Lenient
from agentvm.version import VERSION

STATELESS: Final = "2026-07-28"
HANDSHAKE: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
VERSION_HEADER, METHOD_HEADER, NAME_HEADER = "mcp-protocol-version", "mcp-method", "mcp-name"
_PREFIX: Final = "io.modelcontextprotocol/"
VERSION_MEMBER, CAPABILITIES_MEMBER = f"{_PREFIX}protocolVersion", f"{_PREFIX}clientCapabilities"
SERVER_INFO: Final = {"name": "agentvm", "title": "AgentVM", "version": VERSION}
LISTS_MS: Final = 30_000
"""Time for which a client may keep a list."""
_NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The parameter that a header repeats."""
_ENCODED: Final = re.compile(r"=\?base64\?(.*)\?=")

P = TypeVar("P", bound=Lenient)


class McpMessage(Lenient, frozen=True):
    """A request, a notification without `id`, or an answer of a client, which is nothing to us."""

    jsonrpc: Literal["2.0"]
    id: str | int | UnsetType | None = UNSET
    method: str | None = None
    params: dict[str, Any] | None = None

    @property
    def stream(self) -> bool:
        """Whether the answer may be a stream."""
        return self.method == "tools/call"


@dataclass(frozen=True, slots=True)
class McpCall:
    """A request of a client, whichever era it is of."""

    id: str | int
    method: str
    params: dict[str, Any]
    is_stateless: bool

    @property
    def progress_token(self) -> str | int | None:
        token = _meta(self.params).get("progressToken")
        return token if isinstance(token, str | int) else None

    def read(self, kind: type[P]) -> P:
        """Returns the parameters; `InvalidInput` when they are not of that kind."""
        return read(self.params, kind, "params")

    def result(self, content: Mapping[str, Any], *, keeps_ms: int | None = None) -> dict[str, Any]:
        """Returns the answer. `keeps_ms` is how long a client may keep it, for this caller alone."""
        result = dict(content)
        if self.is_stateless:
            result = {"resultType": "complete", **result, "_meta": {f"{_PREFIX}serverInfo": SERVER_INFO}}
            if keeps_ms is not None:
                result |= {"ttlMs": keeps_ms, "cacheScope": "private"}
        return {"jsonrpc": "2.0", "id": self.id, "result": result}


def read(value: object, kind: type[P], where: str) -> P:
    """Returns a part of a message; `InvalidInput` names the fault."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{where}: {explain(error, kind)}") from None


def call_of(message: McpMessage, headers: Mapping[str, str]) -> McpCall | None:
    """Returns the request in a message; None for one that wants no answer. `MessageRefused` for one of a wrong form."""
    if message.method is None or message.id is UNSET:
        if message.method is None and message.id is UNSET:
            raise MessageRefused(McpCode.INVALID_REQUEST, "A message has a method, an id, or both")
        return None
    if message.id is None:
        raise MessageRefused(McpCode.INVALID_REQUEST, "The id of a request must not be null")
    params, version = message.params or {}, headers.get(VERSION_HEADER)
    protocol_version = _meta(params).get(VERSION_MEMBER)
    if version in HANDSHAKE or (version is None and protocol_version is None):
        return McpCall(message.id, message.method, params, is_stateless=False)
    _check_envelope(message.method, params, headers)
    return McpCall(message.id, message.method, params, is_stateless=True)


def _check_envelope(method: str, params: dict[str, Any], headers: Mapping[str, str]) -> None:
    meta, header = _meta(params), _decoded(headers.get(VERSION_HEADER))
    if header is not None and meta.get(VERSION_MEMBER, header) != header:
        raise MessageRefused(McpCode.HEADER_MISMATCH, f"The header {VERSION_HEADER} contradicts the body")
    if (version := meta.get(VERSION_MEMBER, STATELESS)) != STATELESS:
        # First: another version may have another envelope.
        supported = [STATELESS, *reversed(HANDSHAKE)]
        about = {"supported": supported, "requested": version}
        raise MessageRefused(McpCode.UNSUPPORTED_VERSION, "This version of the protocol is not supported", about)
    if missing := [name for name in (VERSION_MEMBER, CAPABILITIES_MEMBER) if name not in meta]:
        raise MessageRefused(McpCode.INVALID_PARAMS, f"params._meta lacks {', '.join(missing)}")
    expected = {VERSION_HEADER: meta[VERSION_MEMBER], METHOD_HEADER: method}
    if (member := _NAMED_BY.get(method)) is not None and member in params:
        expected[NAME_HEADER] = params[member]
    for name, value in expected.items():
        if _decoded(headers.get(name)) != value:
            raise MessageRefused(McpCode.HEADER_MISMATCH, f"The header {name} contradicts the body")


def _meta(params: dict[str, Any]) -> dict[str, Any]:
    meta = params.get("_meta")
    return meta if isinstance(meta, dict) else {}


def _decoded(value: str | None) -> str | None:
    """Returns the text of a header, which is in base64 if it has other than plain characters."""
    # Spaces around a value are no part of it, and some servers of HTTP leave them there.
    value = None if value is None else value.strip(" \t")
    if value is None or (encoded := _ENCODED.fullmatch(value)) is None:
        return value
    try:
        return base64.b64decode(encoded[1], validate=True).decode()
    except ValueError:
        return None
