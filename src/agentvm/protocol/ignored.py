"""Ignored fields — names that a build request has and this server does not know, so that the reply can say so.

AgentX 1.x ignores fields that it does not know, so they cannot be refused; but a misspelt name must not pass in silence.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from agentvm.errors import shorten
from agentvm.model.base import Record
from agentvm.protocol.requests import Request

REPORTED_MAX = 20
"""Names in one reply: a longer list would not help."""

_NAME = re.compile(r"[\w.-]{1,64}")
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])

_REMEDIES = {
    "apiKey": "keys of providers are stored with `avm secret set provider.<name>`",
    "mcpServers": "MCP servers are named in the config of a new image",
}


def note_ignored(request: Request[Any], data: msgspec.Raw) -> Request[Any]:
    """Returns the request with the names of its unknown fields, if it reports them. `data` is the JSON it was decoded from."""
    nested = type(request).reports_ignored
    if nested is None:
        return request
    try:
        names = tuple(sorted(_unknown(type(request), nested, data)))[:REPORTED_MAX]
    except RecursionError:
        # Nested just below what the decoder of the request itself takes: then the build is refused for its size.
        return request
    return msgspec.structs.replace(request, ignored=names) if names else request


def describe_ignored(names: tuple[str, ...]) -> tuple[str, ...]:
    """Returns one sentence for each, for the reply."""
    return tuple(f"{name} is ignored: {_REMEDIES.get(name.rpartition('.')[2], 'there is no such field')}" for name in names)


def _unknown(kind: type[Record], nested: Mapping[str, type[Record]], data: msgspec.Raw) -> Iterator[str]:
    fields = _fields.decode(data)
    yield from (shown(field) for field in fields.keys() - _names(kind) - {"requestId"})
    for member, record in nested.items():
        value = bytes(fields.get(member, b""))
        if value.lstrip().startswith(b"{"):
            yield from (f"{member}.{shown(field)}" for field in _fields.decode(value).keys() - _names(record))


def shown(name: str) -> str:
    """A peer's own text, fit for a reply and a log."""
    return name if _NAME.fullmatch(name) else repr(shorten(name))


def _names(kind: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(kind)}
