"""Tools — the description of a tool for a model, and the code that a call runs. Nothing is run or fetched here."""

import hashlib
import re
from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from agentvm.errors.resource import ResourceInvalid
from agentvm.model.resource import ResourceType, is_reference
from agentvm.resources.kind import Content, ContentType, JsonObject, RenderContext, check_reference, exact_uri, refuse_fragment
from agentvm.resources.schema import check_schema

TOOL_NAME_MAX = 64
"""The longest name that model providers allow."""
TIMEOUT_MAX_MS = 24 * 60 * 60 * 1000

ShortText = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
ReferenceUri = Annotated[str, msgspec.Meta(max_length=512)]


class ToolContent(Content):
    """`description` may be the URI of a prompt, `entry` that of another tool, which this one is then a face of."""

    description: Annotated[str, msgspec.Meta(min_length=1, max_length=64 * 1024)]
    input_schema: JsonObject
    output_schema: JsonObject | None = None
    runtime: Literal["builtin", "http", "mcp", "python", "command"]
    entry: Annotated[str, msgspec.Meta(min_length=1, max_length=1024 * 1024)]
    timeout_ms: Annotated[int, msgspec.Meta(ge=1, le=TIMEOUT_MAX_MS)] | None = None
    secrets: Annotated[tuple[ShortText, ...], msgspec.Meta(max_length=100)] = ()
    """Names only."""
    sandbox: ReferenceUri | None = None
    permissions: Annotated[tuple[ShortText, ...], msgspec.Meta(max_length=100)] = ()


class Tools:
    type: ResourceType = "tools"
    content: ContentType = ToolContent

    def check(self, content: ToolContent) -> None:
        check_schema("inputSchema", content.input_schema, of_object=True)
        if content.output_schema is not None:
            check_schema("outputSchema", content.output_schema)
        for member, names in (("secrets", content.secrets), ("permissions", content.permissions)):
            if len(set(names)) < len(names):
                raise ResourceInvalid(f"{member} names something twice")
        if is_reference(content.description):
            check_reference("description", content.description, "prompts", fragment=True)
        if is_reference(content.entry):
            check_reference("entry", content.entry, "tools")
        if content.sandbox is not None:
            check_reference("sandbox", content.sandbox, "sandboxes")

    def references(self, content: ToolContent) -> Mapping[str, str]:
        members = {"description": content.description, "entry": content.entry, "sandbox": content.sandbox}
        return {member: uri for member, uri in members.items() if uri is not None and is_reference(uri)}

    def text(self, content: ToolContent) -> str:
        properties = content.input_schema.get("properties")
        names = properties if isinstance(properties, Mapping) else ()
        return "\n".join([content.description, *names])

    def render(self, context: RenderContext) -> JsonObject:
        """Returns the part for the model (name, description, inputSchema), and the fields for the runner."""
        refuse_fragment(context)
        content: ToolContent = context.content
        spec = context.stored_content
        # Providers require the type even where it is implied.
        spec["inputSchema"] = {"type": "object", **content.input_schema}
        if is_reference(content.description):
            spec["description"] = context.follow(content.description).render()
        for member in ("entry", "sandbox"):
            if is_reference(spec.get(member)):
                spec[member] = exact_uri(context.follow(spec[member]).node, context.viewer)
        return {"name": model_name(context.node.resource.name), **spec}


def model_name(name: str) -> str:
    """Returns the name of a resource in the form that models accept. A long name is cut, and stays unique by a digest."""
    fit = re.sub(r"[^a-zA-Z0-9_-]", "_", name)
    if len(fit) <= TOOL_NAME_MAX:
        return fit
    return f"{fit[: TOOL_NAME_MAX - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"
