"""Ignored fields — names that a build request has and this server does not know, so that the reply can say so.

AgentX 1.x ignores fields that it does not know, so they cannot be refused; but a misspelt name must not pass in silence.
"""

import re
from collections.abc import Iterator, Mapping

import msgspec

from agentvm.errors import shorten
from agentvm.model.base import Record
from agentvm.model.definition import Definition
from agentvm.model.image import ImageConfig
from agentvm.protocol.commands import Command, ImageBuild, ImageCreate, ImageUpdate, ImageUpdates, Reply

REPORTED_MAX = 20
"""Names in one reply: a longer list would not help."""

_NAME = re.compile(r"[\w.-]{1,64}")
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])

_NESTED: Mapping[str, tuple[type[Command[Reply]], Mapping[str, type[Record]]]] = {
    ImageCreate.name: (ImageCreate, {"config": ImageConfig}),
    ImageBuild.name: (ImageBuild, {"config": ImageConfig, "definition": Definition}),
    ImageUpdate.name: (ImageUpdate, {"updates": ImageUpdates}),
}

_REMEDIES = {
    "apiKey": "keys of providers are stored with `avm secret set provider.<name>`",
    "mcpServers": "this server does not run MCP servers yet",
}


def note_ignored(name: str, command: Command[Reply], data: msgspec.Raw) -> Command[Reply]:
    """Adds the names of its unknown fields to a command that builds an image. `data` is JSON that was decoded."""
    if name not in _NESTED:
        return command
    try:
        names = tuple(sorted(_unknown(name, data)))[:REPORTED_MAX]
    except RecursionError:
        # Nested just within the limit of the command's own decoder: then the build is refused for its size.
        return command
    return msgspec.structs.replace(command, ignored=names) if names else command


def describe_ignored(names: tuple[str, ...]) -> tuple[str, ...]:
    """Returns one sentence for each, for the reply."""
    return tuple(f"{name} is ignored: {_REMEDIES.get(name.rpartition('.')[2], 'there is no such field')}" for name in names)


def _unknown(name: str, data: msgspec.Raw) -> Iterator[str]:
    kind, nested = _NESTED[name]
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
