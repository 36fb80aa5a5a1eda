"""Definition — the template a developer writes; Snapshot — what a build froze of it."""

import hashlib
from typing import Annotated

import msgspec

from agentvm.model.base import Record


class Definition(Record):
    """A template for agents. Lives in code or in the resource centre; images keep a snapshot, never a link."""

    name: str
    description: str | None = None
    system_prompt: str | None = None
    model: str | None = None
    """`<driver>/<model>`; the server's default when unset."""
    tools: tuple[str, ...] | None = None
    """Names of tools; every built-in tool when unset, none when empty."""
    max_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    thinking: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Tokens the model may think with before it answers, where its provider takes such a budget."""


_canonical = msgspec.json.Encoder(order="sorted")


def snapshot_of(definition: Definition) -> tuple[str, bytes]:
    """The definition's canonical bytes and their digest: equal definitions share one stored snapshot."""
    body = _canonical.encode(definition)
    return f"sha256:{hashlib.sha256(body).hexdigest()}", body
