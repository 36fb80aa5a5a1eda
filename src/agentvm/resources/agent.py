"""Agents — definitions as resources: a prompt, a model, tools, a sandbox, knowledge and skills, each text or a reference."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from agentvm.errors import shorten
from agentvm.errors.resource import ResourceInvalid
from agentvm.model.definition import SKILLS_MAX, Definition
from agentvm.model.policy import RULES_MAX, PolicyRule, check_rule
from agentvm.model.resource import ResourceType, VersionId, is_reference
from agentvm.model.turn import OutputFormat, TurnOption
from agentvm.resources.kind import (
    Content,
    ContentType,
    JsonObject,
    RenderContext,
    check_json,
    check_reference,
    check_rendered,
    refuse_fragment,
)
from agentvm.resources.schema import check_schema
from agentvm.resources.tool import TOOL_NAME_MAX
from agentvm.resources.tool_set import expand

ReferenceName = Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
LISTED_MAX = 200
HANDOFFS_MAX = 16
VARIABLES_MAX = 1_000


class AgentContent(Content):
    """`tools` are URIs, or names of built-in tools: `current_time` and `calculator` when unset, none when empty."""

    description: Annotated[str, msgspec.Meta(max_length=16 * 1024)] | None = None
    system_prompt: Annotated[str, msgspec.Meta(max_length=1024 * 1024)] | None = None
    """The URI of a prompt, or literal text, braces and all."""
    model: ReferenceName | None = None
    max_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    thinking: Annotated[int, msgspec.Meta(ge=1)] | None = None
    tools: Annotated[tuple[ReferenceName, ...], msgspec.Meta(max_length=LISTED_MAX)] | None = None
    sandbox: ReferenceName | None = None
    knowledge: Annotated[tuple[ReferenceName, ...], msgspec.Meta(max_length=LISTED_MAX)] = ()
    skills: Annotated[tuple[ReferenceName, ...], msgspec.Meta(max_length=SKILLS_MAX)] = ()
    """Instructions that it reads when a task fits them."""
    handoffs: Annotated[tuple[ReferenceName, ...], msgspec.Meta(max_length=HANDOFFS_MAX)] = ()
    """Agents that it can hand the conversation over to."""
    policy: Annotated[tuple[PolicyRule, ...], msgspec.Meta(max_length=RULES_MAX)] = ()
    """Rules about tool calls, which can only tighten those of the tenant and of the operator."""
    output: OutputFormat | None = None
    """The form of every answer: JSON that fits a schema."""
    turn_options: Annotated[tuple[TurnOption, ...], msgspec.Meta(max_length=LISTED_MAX)] | None = None
    """The options that the sender of a message may choose; all but the model when unset, none when empty."""
    defaults: JsonObject | None = None
    """Values for the variables of its prompt; the caller's arguments take precedence."""


class Agents:
    type: ResourceType = "agents"
    content: ContentType = AgentContent

    def check(self, content: AgentContent) -> None:
        if content.system_prompt is not None and is_reference(content.system_prompt):
            check_reference("systemPrompt", content.system_prompt, "prompts", fragment=True)
        for member, names in (
            ("tools", content.tools or ()),
            ("knowledge", content.knowledge),
            ("skills", content.skills),
            ("handoffs", content.handoffs),
        ):
            if len(set(names)) < len(names):
                raise ResourceInvalid(f"{member} lists an entry twice")
        for index, tool in enumerate(content.tools or ()):
            if is_reference(tool):
                check_reference(f"tools.{index}", tool, "tools")
            elif not tool.isprintable() or len(tool) > TOOL_NAME_MAX:
                raise ResourceInvalid(f"tools.{index}: {shorten(tool)!r} is neither a URI nor the name of a built-in tool")
        if content.sandbox is not None:
            check_reference("sandbox", content.sandbox, "sandboxes")
        for index, uri in enumerate(content.knowledge):
            check_reference(f"knowledge.{index}", uri, "knowledge")
        named = [check_reference(f"skills.{index}", uri, "skills").name for index, uri in enumerate(content.skills)]
        if len(set(named)) < len(named):
            raise ResourceInvalid("skills has two of one name; a model could not tell them apart")
        for index, uri in enumerate(content.handoffs):
            check_reference(f"handoffs.{index}", uri, "agents")
        for number, rule in enumerate(content.policy, 1):
            if fault := check_rule(rule):
                raise ResourceInvalid(f"policy, rule {number}, {fault}")
        if content.output is not None:
            check_schema("output.schema", content.output.schema)
        if len(content.defaults or ()) > VARIABLES_MAX:
            raise ResourceInvalid(f"defaults has more than {VARIABLES_MAX} variables")
        if content.model is not None and is_reference(content.model):
            raise ResourceInvalid("model must be the name of a model, such as driver/model: a model is not a resource")

    def references(self, content: AgentContent) -> Mapping[str, str]:
        members = {"systemPrompt": content.system_prompt, "sandbox": content.sandbox}
        members |= {f"tools.{index}": uri for index, uri in enumerate(content.tools or ())}
        members |= {f"knowledge.{index}": uri for index, uri in enumerate(content.knowledge)}
        members |= {f"skills.{index}": uri for index, uri in enumerate(content.skills)}
        members |= {f"handoffs.{index}": uri for index, uri in enumerate(content.handoffs)}
        return {alias: uri for alias, uri in members.items() if uri is not None and is_reference(uri)}

    def text(self, content: AgentContent) -> str:
        prompt = content.system_prompt
        return "\n".join(filter(None, [content.description, None if is_reference(prompt) else prompt, content.model]))

    def render(self, context: RenderContext) -> JsonObject:
        """Returns the whole definition, without references; unset fields are left out."""
        refuse_fragment(context)
        check_json(context.args, "args")
        content: AgentContent = context.content
        args = {**(content.defaults or {}), **context.args}
        size = 0

        def followed(uri: str) -> tuple[RenderContext, Any]:
            nonlocal size
            inner = context.follow(uri, args)
            rendered = inner.render()
            # Counted as it grows: many that are just small enough are refused before they are all in memory.
            size += len(msgspec.json.encode(rendered))
            check_rendered(context.uri, size)
            return inner, rendered

        spec: dict[str, Any] = {"name": context.node.resource.name, **context.stored_content}
        spec.pop("defaults", None)
        if is_reference(content.system_prompt) and content.system_prompt is not None:
            spec["systemPrompt"] = followed(content.system_prompt)[1]
        if content.tools is not None:
            spec["tools"] = _distinct(
                [followed(tool) if is_reference(tool) else (None, {"name": tool}) for tool in content.tools]
            )
        if content.sandbox is not None:
            spec["sandbox"] = followed(content.sandbox)[1]
        manifests = [followed(uri) for uri in content.knowledge]
        if content.skills:
            spec["skills"] = [{"uri": inner.uri, **skill} for inner, skill in map(followed, content.skills)]
        if content.handoffs:
            spec["handoffs"] = [context.follow(uri).uri for uri in content.handoffs]
        spec["knowledge"] = [{"uri": inner.uri, "name": inner.node.resource.name, **manifest} for inner, manifest in manifests]
        return spec


def to_definition(name: str, content: AgentContent) -> Definition:
    """Copies the fields as written: references stay references."""
    fields = msgspec.structs.asdict(content)
    return Definition(name=name, variables=fields.pop("defaults"), **fields)


def _distinct(tools: list[tuple[RenderContext | None, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Returns one tool of each version, each under its own name: of two equal names the later gets a number.

    Built-in tools keep their names, because they are found by name only.
    """
    used_names = {spec["name"] for context, spec in tools if context is None}
    seen: set[VersionId] = set()
    distinct: list[dict[str, Any]] = []
    for context, whole in tools:
        if context is None:
            distinct.append(whole)
            continue
        version_id = context.node.version.version_id
        if version_id in seen:
            continue
        seen.add(version_id)
        for spec in expand(whole):
            name = spec["name"]
            number = 1
            while name in used_names:
                number += 1
                name = f"{spec['name'][: TOOL_NAME_MAX - 4]}_{number}"
            used_names.add(name)
            distinct.append({**spec, "name": name})
    return distinct
