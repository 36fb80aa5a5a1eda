"""Definition — the template a developer writes; Snapshot — its frozen form in a build."""

import hashlib
from typing import Annotated

import msgspec

from agentvm.model.base import Record
from agentvm.model.policy import PolicyRule
from agentvm.model.turn import OutputFormat, TurnOption

DEFAULT_TOOLS = ("current_time", "calculator")
"""The tools of a definition that names none. Never changed: an image must not gain a tool by an upgrade of the server."""
SEARCH_KNOWLEDGE = "search_knowledge"
"""The tool that the build of an image with knowledge adds."""
LOAD_SKILL = "load_skill"
"""The tool that the build of an image with skills adds."""
SKILLS_MAX = 32
"""Skills of one agent: the descriptions of all are in every prompt."""
_KNOWLEDGE = "How to use the documents of this agent:"
_SKILLS = "Skills are instructions for certain tasks. When a task fits one, read it with load_skill first, and follow it:"


class Rendered(Record):
    """The resolved references of a definition at the build of its image, besides the system prompt."""

    tools: tuple[dict[str, object], ...] = ()
    sandbox: dict[str, object] | None = None
    knowledge: tuple[dict[str, object], ...] = ()
    skills: tuple[dict[str, object], ...] = ()
    """Each with its `uri`, `digest`, `name` and `description`; the rest is read when it is asked for."""
    agents: dict[str, "Definition"] = msgspec.field(default_factory=dict)
    """The agents that its tools call, and those below them, by their exact URIs."""
    handoffs: tuple[str, ...] = ()
    """The agents that the conversation can be handed over to, by their exact URIs."""
    home: str | None = None
    """The name of the image's own agent, to which another can hand back; only while that answers."""
    callers: tuple[tuple[PolicyRule, ...], ...] = ()
    """The rules of the agents above a sub-agent; only while one runs."""


class Definition(Record):
    """A template for agents. Lives in code or in the resource centre; images keep a snapshot, never a link.

    `system_prompt`, each of `tools`, `sandbox`, each of `knowledge`, `skills` and `handoffs` may be a `resource://` URI. In a
    snapshot none is: the prompt is rendered, tools are names, and the rest is in `rendered`.
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
    skills: tuple[str, ...] = ()
    """URIs of instructions that it reads when a task fits them."""
    handoffs: tuple[str, ...] = ()
    """URIs of agents that the conversation can be handed over to."""
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


def system_text(definition: Definition) -> str | None:
    """Returns the system prompt as a model gets it: with the instructions of the knowledge bases, and the names and
    descriptions of the skills, each in one line.
    """
    rendered = definition.rendered or Rendered()
    advice = [str(base["instructions"]) for base in rendered.knowledge if base.get("instructions")]
    parts = [definition.system_prompt]
    if advice:
        parts.append("\n\n".join([_KNOWLEDGE, *dict.fromkeys(advice)]))
    if rendered.skills and LOAD_SKILL in (definition.tools or ()):
        lines = [f"- {skill['name']}: {' '.join(str(skill['description']).split())}" for skill in rendered.skills]
        parts.append("\n".join([_SKILLS, *lines]))
    return "\n\n".join(filter(None, parts)) or definition.system_prompt
