"""Tools — the description of a tool for a model, and the code that a call runs. Nothing is run or fetched here."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

import msgspec

from agentvm.errors import shorten
from agentvm.errors.resource import ResourceInvalid
from agentvm.model.base import Record
from agentvm.model.provider_tool import USES_MAX
from agentvm.model.resource import ResourceType, digest_of, is_digest, is_reference, some_of
from agentvm.model.tool import Effect, Repeat, ToolRuntime, World
from agentvm.resources import tool_entry
from agentvm.resources.kind import (
    Binary,
    Content,
    ContentType,
    JsonObject,
    RenderContext,
    check_reference,
    check_rendered,
    exact_uri,
    refuse_fragment,
)  # fmt: skip
from agentvm.resources.schema import check_schema

TOOL_NAME_MAX = 64
"""The longest name that model providers allow."""
TIMEOUT_MAX_MS = 24 * 60 * 60 * 1000

ShortText = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
LongText = Annotated[str, msgspec.Meta(max_length=8 * 1024)]
ReferenceUri = Annotated[str, msgspec.Meta(max_length=512)]
PositiveNumber = Annotated[int, msgspec.Meta(ge=1, le=2**53)]
SETS: tuple[ToolRuntime, ...] = ("openapi", "mcp")
"""Runtimes whose tools are read from a source when they are published."""
SET_TOOLS_MAX = 500
_ENGINE = r"^(python(-subset)?|shell(-subset)?|javascript|(binary|image):.{1,200})$"
_CODE = ("python", "javascript", "shell", "command")
TASK_SCHEMA: JsonObject = {
    "properties": {"task": {"type": "string", "description": "The task, with all that is needed to do it."}},
    "required": ["task"],
}
"""Input of an `agent` tool that has no schema of its own."""


class HttpRequestParts(Record, forbid_unknown_fields=True):
    """How an `http` tool forms its request, and which part of the response it takes. Arguments that nothing uses form the
    body."""

    query: dict[ShortText, LongText] | None = None
    headers: dict[ShortText, LongText] | None = None
    body: Literal["json", "form", "none"] = "json"
    pick: LongText | None = None
    """JSON pointer of the part of the response that is the result."""
    ok: Annotated[tuple[Annotated[str, msgspec.Meta(pattern=r"^[1-5][0-9x]{2}$")], ...], msgspec.Meta(max_length=20)] = ("2xx",)


class ToolNeeds(Record, forbid_unknown_fields=True):
    """Requirements of running the tool, beside its sandbox. The scheduler takes the cheapest tier that has all of it."""

    engine: Annotated[str, msgspec.Meta(pattern=_ENGINE)] | None = None
    packages: Annotated[tuple[ShortText, ...], msgspec.Meta(max_length=200)] = ()
    walls: Annotated[tuple[ShortText, ...], msgspec.Meta(max_length=20)] = ()
    memory_bytes: PositiveNumber | None = None
    cpu_seconds: PositiveNumber | None = None
    processes: PositiveNumber | None = None
    disk_bytes: PositiveNumber | None = None


class ToolTraits(Record, forbid_unknown_fields=True):
    """Properties of one tool of a set that differ from the set's."""

    effect: Effect | None = None
    world: World | None = None
    repeat: Repeat | None = None
    ask: bool = False
    headers: bool = False
    """Whether an MCP server may have arguments copied into HTTP headers, where proxies log them."""


class FrozenTool(Record, forbid_unknown_fields=True):
    """One tool of a set as its source described it when the set was published."""

    description: Annotated[str, msgspec.Meta(min_length=1, max_length=64 * 1024)]
    input_schema: JsonObject
    output_schema: JsonObject | None = None
    title: LongText | None = None
    annotations: JsonObject | None = None
    pin: ShortText | None = None
    """Digest of the description by the MCP server; a call is made only while it is the same."""
    entry: LongText | None = None
    """Request of an operation of an OpenAPI document."""
    http: HttpRequestParts | None = None
    effect: Effect | None = None


class ToolContent(Content):
    """`description` may be the URI of a prompt, `entry` that of another tool, which this one is then a face of."""

    description: Annotated[str, msgspec.Meta(min_length=1, max_length=64 * 1024)]
    input_schema: JsonObject | None = None
    """Required but for a set of tools, whose schemas are its source's, and for an agent, which takes a `task`."""
    output_schema: JsonObject | None = None
    runtime: ToolRuntime
    entry: Annotated[str, msgspec.Meta(min_length=1, max_length=1024 * 1024)]
    effect: Effect | None = None
    """`write` when unset."""
    world: World | None = None
    """`open` when unset for a tool that reaches other servers, else `closed`."""
    repeat: Repeat | None = None
    """`safe` when unset for a tool that only reads, else `never`."""
    ask: bool = False
    """Every call waits for an approval. Policies can ask more often, never less."""
    http: HttpRequestParts | None = None
    needs: ToolNeeds | None = None
    select: Annotated[tuple[ShortText, ...], msgspec.Meta(max_length=200)] = ()
    """Patterns of the tools of a set that are taken; all when empty."""
    pin: dict[ShortText, ShortText] | None = None
    """Digests of the tools of an MCP server, by name."""
    tools: dict[ShortText, ToolTraits] | None = None
    """Differences of single tools of a set."""
    document: Binary | None = None
    """The OpenAPI document, for an entry `blob:sha256:…`."""
    frozen: Annotated[dict[ShortText, FrozenTool], msgspec.Meta(max_length=SET_TOOLS_MAX)] | None = None
    """Tools of a set by name; read from its source at publication when unset."""
    carry: Literal["none", "summary", "history"] | None = None
    """The part of the conversation that an `agent` tool is told."""
    options: JsonObject | None = None
    """Options of a tool that the provider of the model runs."""
    timeout_ms: Annotated[int, msgspec.Meta(ge=1, le=TIMEOUT_MAX_MS)] | None = None
    secrets: Annotated[tuple[ShortText, ...], msgspec.Meta(max_length=100)] = ()
    """Names only."""
    sandbox: ReferenceUri | None = None
    permissions: Annotated[tuple[ShortText, ...], msgspec.Meta(max_length=100)] = ()


class Tools:
    type: ResourceType = "tools"
    content: ContentType = ToolContent

    def check(self, content: ToolContent) -> None:
        if content.input_schema is not None:
            check_schema("inputSchema", content.input_schema, of_object=True)
        elif content.runtime not in (*SETS, "provider", "agent"):
            raise ResourceInvalid(f"inputSchema is missing; only a set of tools ({' or '.join(SETS)}) may leave it out")
        if content.output_schema is not None:
            check_schema("outputSchema", content.output_schema)
        for member, names in (("secrets", content.secrets), ("permissions", content.permissions)):
            if len(set(names)) < len(names):
                raise ResourceInvalid(f"{member} lists an entry twice")
        if content.runtime in _CODE and (
            odd := next((n for n in content.secrets if not tool_entry.SECRET_NAME.fullmatch(n)), None)
        ):
            raise ResourceInvalid(f"secrets: {shorten(odd)!r} cannot be a variable: use letters, digits and _, no digit first")
        if is_reference(content.description):
            check_reference("description", content.description, "prompts", fragment=True)
        if is_reference(content.entry) and content.runtime != "agent":
            check_reference("entry", content.entry, "tools")
        else:
            _check_entry(content)
        if content.sandbox is not None:
            check_reference("sandbox", content.sandbox, "sandboxes")
        for member in _misplaced(content):
            raise ResourceInvalid(f"{member} has no meaning for a tool with the runtime {content.runtime}")
        if (engine := content.needs and content.needs.engine) and ":" not in engine:
            if content.runtime != engine.removesuffix("-subset"):
                raise ResourceInvalid(f"needs.engine: {engine} does not run tools with the runtime {content.runtime}")
        if content.repeat == "safe" and content.effect == "destructive":
            raise ResourceInvalid('repeat: a destructive tool is not safe to repeat; write "keyed" or "never"')
        if wrong := next((name for name, digest in (content.pin or {}).items() if not is_digest(digest)), None):
            raise ResourceInvalid(f"pin.{wrong} is not a digest, such as sha256:…")
        _check_set(content)

    def references(self, content: ToolContent) -> Mapping[str, str]:
        members = {"description": content.description, "entry": content.entry, "sandbox": content.sandbox}
        return {member: uri for member, uri in members.items() if uri is not None and is_reference(uri)}

    def text(self, content: ToolContent) -> str:
        properties = (content.input_schema or {}).get("properties")
        names = properties if isinstance(properties, Mapping) else ()
        return "\n".join([content.description, *names])

    def render(self, context: RenderContext) -> JsonObject:
        """Returns the part for the model (name, description, inputSchema), and the fields for the runner.

        `resolved` holds the versions of `entry` and `sandbox` at the time of the build.
        """
        refuse_fragment(context)
        content: ToolContent = context.content
        spec = context.stored_content
        spec.pop("document", None)
        # Providers require the type even where it is implied.
        implied = TASK_SCHEMA if content.runtime == "agent" else {}
        spec["inputSchema"] = {"type": "object", **(content.input_schema or implied)}
        if is_reference(content.description):
            spec["description"] = context.follow(content.description).render()
        resolved: JsonObject = {}
        for member in ("entry", "sandbox"):
            if is_reference(spec.get(member)):
                target = context.follow(spec[member])
                spec[member] = exact_uri(target.node, context.viewer)
                if content.runtime != "agent" or member == "sandbox":
                    resolved[member] = target.render()
        spec |= {"resolved": resolved} if resolved else {}
        # Grants name the resource by its id: a name can pass to somebody else.
        spec |= {"resourceId": context.node.resource.resource_id} if content.secrets else {}
        check_rendered(context.uri, len(msgspec.json.encode(spec)))
        return {"name": model_name(context.node.resource.name), **spec}


def _check_entry(content: ToolContent) -> None:
    """Checks the entry against the grammar of its runtime."""
    match content.runtime:
        case "http":
            _check_http(content)
        case "openapi":
            tool_entry.parse_openapi(content.entry)
        case "mcp":
            tool_entry.parse_mcp(content.entry)
        case "command":
            for element in tool_entry.parse_command(content.entry):
                tool_entry.check_names("entry", tuple(tool_entry.arguments_of(element)), _properties(content), "inputSchema")
        case "agent":
            check_reference("entry", content.entry, "agents")
        case "provider":
            _check_provider(content)
        case _:
            pass


def _check_set(content: ToolContent) -> None:
    """Checks the tools of a set, and all that is said of single ones."""
    document = content.document
    if content.entry.startswith("blob:") or document is not None:
        digest = None if document is None else document.blob or digest_of(document.data or b"")
        if content.entry != f"blob:{digest}":
            raise ResourceInvalid(f"document: the entry has to be blob: and the digest of the document, {digest or 'sha256:…'}")
    if content.frozen is None:
        return
    for name, tool in content.frozen.items():
        check_schema(f"frozen.{name}.inputSchema", tool.input_schema, of_object=True)
        if tool.output_schema is not None:
            check_schema(f"frozen.{name}.outputSchema", tool.output_schema)
        if content.runtime == "openapi":
            tool_entry.parse_http(tool.entry or "")
        elif tool.pin is None or not is_digest(tool.pin):
            raise ResourceInvalid(f"frozen.{name}.pin is not a digest, such as sha256:…")
    for member, names in (("tools", content.tools or {}), ("pin", content.pin or {})):
        if unknown := next((name for name in names if name not in content.frozen), None):
            there = some_of(tuple(content.frozen), "tool")
            raise ResourceInvalid(f"{member}.{unknown} is not a tool of the set, which has {there}")
    for name, digest in (content.pin or {}).items():
        if (current := content.frozen[name].pin) != digest:
            raise ResourceInvalid(f"pin.{name}: the server describes the tool otherwise than that; its digest is {current}")


def _check_http(content: ToolContent) -> None:
    tool_entry.check_names("entry", tool_entry.parse_http(content.entry).arguments, _properties(content), "inputSchema")
    parts = content.http or HttpRequestParts()
    for member, values in (("query", parts.query or {}), ("headers", parts.headers or {})):
        for name, value in values.items():
            arguments, secrets = tuple(tool_entry.arguments_of(value)), tuple(tool_entry.secrets_of(value))
            if arguments and secrets:
                raise ResourceInvalid(f"http.{member}.{name} mixes an argument and a secret; a value has one or the other")
            if "\r" in value or "\n" in value or "\0" in value:
                raise ResourceInvalid(f"http.{member}.{name} has a line break")
            tool_entry.check_names(f"http.{member}.{name}", arguments, _properties(content), "inputSchema")
            tool_entry.check_names(f"http.{member}.{name}", secrets, content.secrets, "secrets")
    if parts.pick is not None and parts.pick and not parts.pick.startswith("/"):
        raise ResourceInvalid("http.pick is a JSON pointer, such as /data/0/name")


def _check_provider(content: ToolContent) -> None:
    if not re.fullmatch(r"[a-z0-9_-]{1,64}/[A-Za-z0-9._-]{1,128}", content.entry):
        raise ResourceInvalid("entry: a provider's tool is written <provider>/<tool>, such as anthropic/web_search_20260209")
    if odd := next((member for member in ("type", "name") if member in (content.options or {})), None):
        raise ResourceInvalid(f"options.{odd} follows from the entry; leave it out")
    uses = (content.options or {}).get("max_uses", USES_MAX)
    if not isinstance(uses, int) or isinstance(uses, bool) or not 0 < uses <= USES_MAX:
        raise ResourceInvalid(f"options.max_uses is a number from 1 to {USES_MAX}, the calls of the tool in one model call")
    if content.world == "closed":
        raise ResourceInvalid("world: a provider's tool reads text of strangers; it is open")


def _properties(content: ToolContent) -> tuple[str, ...]:
    properties = (content.input_schema or {}).get("properties")
    return tuple(properties) if isinstance(properties, Mapping) else ()


def _misplaced(content: ToolContent) -> Iterator[str]:
    """Yields the members that are set and belong to other runtimes: an input is never accepted and then ignored."""
    of_runtimes: dict[str, tuple[object, tuple[str, ...]]] = {
        "http": (content.http, ("http", "openapi")),
        "select": (content.select, SETS),
        "pin": (content.pin, ("mcp",)),
        "tools": (content.tools, SETS),
        "carry": (content.carry, ("agent",)),
        "options": (content.options, ("provider",)),
        "secrets": (content.secrets, ("http", "openapi", "mcp", *_CODE)),
        "needs": (content.needs, ("python", "javascript", "shell", "command", "mcp")),
        "document": (content.document, ("openapi",)),
        "frozen": (content.frozen, SETS),
    }
    for member, value in _unused(content).items():
        of_runtimes[member] = (value, ())
    return (member for member, (value, runtimes) in of_runtimes.items() if value and content.runtime not in runtimes)


def _unused(content: ToolContent) -> dict[str, object]:
    """Returns the members without an effect, with their values, because another runs the tool or its code has its own."""
    match content.runtime:
        case "client":
            # The client answers once.
            return {"repeat": content.repeat}
        case "builtin":
            own = {"outputSchema": content.output_schema, "sandbox": content.sandbox}
            return {**own, "repeat": content.repeat, "timeoutMs": content.timeout_ms}
        case "agent":
            # A call has one sub-agent however often it is taken up, and that has a sandbox of its own.
            return {"repeat": content.repeat, "sandbox": content.sandbox}
        case "provider":
            # Nobody sees its input before the provider runs it, or can repeat it.
            schemas = {"inputSchema": content.input_schema, "outputSchema": content.output_schema}
            return {
                **schemas,
                "repeat": content.repeat,
                "ask": content.ask,
                "timeoutMs": content.timeout_ms,
                "sandbox": content.sandbox,
            }
        case _:
            return {}


def model_name(name: str) -> str:
    """Returns the name of a resource in the form that models accept. A long name is cut, and stays unique by a digest."""
    fit = re.sub(r"[^a-zA-Z0-9_-]", "_", name)
    if len(fit) <= TOOL_NAME_MAX:
        return fit
    return f"{fit[: TOOL_NAME_MAX - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"
