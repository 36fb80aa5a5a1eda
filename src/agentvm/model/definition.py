"""Definition — the template a developer writes; Snapshot — its frozen form in a build."""

import hashlib
from typing import Annotated

import msgspec

from agentvm.model.base import Record
from agentvm.model.policy import PolicyRule
from agentvm.model.turn import OutputFormat, TurnOption

DEFAULT_TOOLS = ("current_time", "calculator")
"""The tools of a definition that names none. Never changed: an image must not gain a tool by an upgrade of the server."""


class Rendered(Record):
    """The resolved references of a definition at the build of its image, besides the system prompt."""

    tools: tuple[dict[str, object], ...] = ()
    sandbox: dict[str, object] | None = None
    knowledge: tuple[dict[str, object], ...] = ()


class Definition(Record):
    """A template for agents. Lives in code or in the resource centre; images keep a snapshot, never a link.

    `system_prompt`, each of `tools`, `sandbox` and each of `knowledge` may be a `resource://` URI. In a snapshot none is: the
    prompt is rendered, tools are names, and the rest is in `rendered`.
    """

    name: str
    description: str | None = None
    system_prompt: str | None = None
    model: str | None = None
    """`<driver>/<model>`; the server's default when unset."""
    tools: tuple[str, ...] | None = None
    """Names of tools; `current_time` and `calculator` when unset, none when empty."""
    sandbox: str | None = None
    knowledge: tuple[str, ...] = ()
    variables: dict[str, object] | None = None
    """Values for the variables of prompts; an image's own go before them."""
    policy: tuple[PolicyRule, ...] = ()
    """Rules about tool calls, which can only tighten those of the tenant and of the operator."""
    max_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    thinking: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Thinking budget in tokens, for providers that take one."""
    output: OutputFormat | None = None
    """The form of every answer: JSON that fits a schema."""
    turn_options: tuple[TurnOption, ...] | None = None
    """The options that the sender of a message may choose; all but the model when unset, none when empty."""
    rendered: Rendered | None = None
    """The resolved references; only in a snapshot."""


_canonical = msgspec.json.Encoder(order="sorted")


def snapshot_of(definition: Definition) -> tuple[str, bytes]:
    """The definition's canonical bytes and their digest: equal definitions share one stored snapshot."""
    body = _canonical.encode(definition)
    return f"sha256:{hashlib.sha256(body).hexdigest()}", body
