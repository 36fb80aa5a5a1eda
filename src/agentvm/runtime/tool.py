"""Tool — one tool as turns call it, and how it is made: of a function, of a built-in one, or of the spec of an image."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

import msgspec

from agentvm.drivers.base import ProviderTool, ToolSpec
from agentvm.errors import ToolFailed
from agentvm.model.message import ToolCall
from agentvm.model.tool import Effect, ToolRuntime, World, default_world
from agentvm.model.wait import WaitKind
from agentvm.runtime.policy import CallFacts
from agentvm.tools.base import CallableTool, CallContext, Outcome

_EFFECTS: tuple[Effect, ...] = ("read", "write", "destructive")

Run = Callable[[dict[str, object]], Awaitable[object]]
"""Takes the call's input, returns any JSON value; raises `ToolFailed` with a text the model can act upon."""

KeyedRun = Callable[[dict[str, object], CallContext], Awaitable[Outcome]]
"""Like `Run`, with the circumstances of the call."""

MakeTool = Callable[[Mapping[str, object]], CallableTool | None]
"""Makes the tool of a spec that an image holds; None for a kind that this server cannot run."""

Carry = Literal["none", "summary", "history"]

TIMEOUT_SECONDS = 60.0
AGENT_SECONDS = 30 * 86_400.0
"""Time that a sub-agent has for a call, most of which it may wait for people, unless the tool says otherwise."""
CLIENT_WAIT_SECONDS = 7 * 86_400.0
"""Time that a client has for the result of its own tool, unless the tool says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool the runtime can run."""

    spec: ToolSpec
    run: Run
    timeout_seconds: float = TIMEOUT_SECONDS
    repeatable: bool = False
    """Running it twice is as good as once, so it may run again after a crash."""
    runtime: ToolRuntime = "builtin"
    effect: Effect = "read"
    world: World = "closed"
    version: str = ""
    """The exact version, for a tool that has one."""
    asks: bool = False
    """The author wants every call approved."""
    call: KeyedRun | None = None
    """Runs instead of `run`, for a tool that needs to know its call."""
    writes_files: bool = False
    """Whether calls may change files of the session: those of one turn run one after the other."""
    has_network: bool = False
    """Whether its code reaches other servers by itself."""
    waits_for: WaitKind | None = None
    """The wait of every call besides an approval: for the client that runs it, or for an answer."""
    beside: Callable[[Sequence[ToolSpec]], str] | None = None
    """Describes the tools that it can call, for a tool that runs programs."""
    within: Callable[[Mapping[str, object]], "Tool"] | None = None
    """Returns the tool in the sandbox of an image, for one that runs in it."""
    why_missing: Callable[[], Awaitable[str | None]] | None = None
    """Returns why this machine cannot run the tool, with the remedy; models are told only of tools that it can run."""
    output_schema: Mapping[str, object] | None = None
    """The schema that results must fit."""
    also_fits: Mapping[str, object] | None = None
    """A second schema of the input: that of the tool which a resource describes otherwise."""
    at_provider: tuple[str, ProviderTool] | None = None
    """The driver whose provider runs the tool, and the tool as that provider knows it."""
    agent: str | None = None
    """The agent of the image that works on a call, by its URI."""
    transfers_to: str | None = None
    """The agent that the conversation is handed over to, by its URI; empty for the image itself."""
    carry: Carry = "none"
    """The part of the conversation that the agent receives."""


def facts_of(tool: Tool, call: ToolCall, *, tainted: bool) -> CallFacts:
    return CallFacts(
        tool=call.name,
        version=tool.version,
        runtime=tool.runtime,
        effect=tool.effect,
        world=tool.world,
        tainted=tainted,
        asks=tool.asks,
        has_network=tool.has_network,
        input=call.input,
    )


def with_programs(tool: Tool, others: Sequence[ToolSpec]) -> Tool:
    """Returns a tool that runs programs with the tools that they can call in its description."""
    if tool.beside is None or not others:
        return tool
    description = f"{tool.spec.description}\n\n{tool.beside(others)}"
    return replace(tool, spec=msgspec.structs.replace(tool.spec, description=description))


def as_described(tool: Tool, spec: Mapping[str, object]) -> Tool:
    """Returns a tool of the server as a resource describes it. An input has to fit its own schema as well."""
    schema, own = spec.get("inputSchema"), tool.spec
    described = ToolSpec(
        name=own.name,
        description=str(spec.get("description") or own.description),
        input_schema=schema if isinstance(schema, dict) and schema.get("properties") else own.input_schema,
    )
    return replace(
        tool,
        spec=described,
        asks=tool.asks or bool(spec.get("ask")),
        also_fits=own.input_schema if described.input_schema != own.input_schema else None,
        # It can be called more dangerous than it is, never less.
        effect=max(tool.effect, cast(Effect, spec.get("effect") or tool.effect), key=_EFFECTS.index),
        world="open" if "open" in (tool.world, spec.get("world")) else "closed",
    )


def image_tool(spec: Mapping[str, object], make: MakeTool) -> Tool | None:
    """Returns the tool of a spec: one that the client runs, or one that this server makes of it."""
    asks, version = bool(spec.get("ask")), str(spec.get("uri", ""))
    if spec["runtime"] == "provider":
        return _provider_tool(spec, version)
    if spec["runtime"] == "agent":
        return _agent_tool(spec, version, asks=asks)
    if spec["runtime"] == "client":
        schema = spec.get("inputSchema")
        described = ToolSpec(
            name=str(spec["name"]),
            description=str(spec["description"]),
            input_schema=schema if isinstance(schema, dict) else {"type": "object"},
        )
        timeout_ms = spec.get("timeoutMs")
        return replace(
            client_tool(described),
            timeout_seconds=timeout_ms / 1000 if isinstance(timeout_ms, int) else CLIENT_WAIT_SECONDS,
            effect=cast(Effect, spec.get("effect") or "write"),
            world=cast(World, spec.get("world") or default_world("client")),
            version=version,
            asks=asks,
            output_schema=_schema(spec.get("outputSchema")),
        )
    built = make(spec)
    if built is None:
        return None
    # What runs decides, not what the resources that refer to it say of themselves.
    *faces, target = _chain(spec)
    tool = tool_of(
        built,
        cast(ToolRuntime, target["runtime"]),
        version=" ".join([version, *(str(face["entry"]) for face in faces)]),
        asks=any(part.get("ask") for part in (*faces, target)),
    )
    also_fits = _schema(target.get("inputSchema")) if faces else None
    return replace(tool, output_schema=_schema(target.get("outputSchema")), also_fits=also_fits)


def _chain(spec: Mapping[str, object]) -> list[Mapping[str, object]]:
    """Returns a spec, those that it refers to one after the other, and at last the one that runs."""
    chain = [spec]
    while isinstance(resolved := chain[-1].get("resolved"), Mapping) and "entry" in resolved:
        chain.append(resolved["entry"])
    return chain


def client_tool(spec: ToolSpec) -> Tool:
    """Returns a tool that the client runs: its calls wait for the client's result."""
    return Tool(
        spec=spec,
        run=_never,
        timeout_seconds=CLIENT_WAIT_SECONDS,
        runtime="client",
        effect="write",
        world=default_world("client"),
        waits_for="client",
    )


def _agent_tool(spec: Mapping[str, object], version: str, *, asks: bool) -> Tool:
    """Returns a tool whose calls another agent works on. The same call has the same sub-agent, so it may be taken up again."""
    schema, timeout_ms = spec.get("inputSchema"), spec.get("timeoutMs")
    return Tool(
        spec=ToolSpec(
            name=str(spec["name"]),
            description=str(spec["description"]),
            input_schema=schema if isinstance(schema, dict) else {"type": "object"},
        ),
        run=_never,
        timeout_seconds=timeout_ms / 1000 if isinstance(timeout_ms, int) else AGENT_SECONDS,
        repeatable=True,
        runtime="agent",
        effect=cast(Effect, spec.get("effect") or "write"),
        world=cast(World, spec.get("world") or default_world("agent")),
        version=version,
        asks=asks,
        output_schema=_schema(spec.get("outputSchema")),
        agent=str(spec["entry"]),
        carry=cast(Carry, spec.get("carry") or "none"),
    )


def _provider_tool(spec: Mapping[str, object], version: str) -> Tool:
    driver, _, type_ = str(spec["entry"]).partition("/")
    name, options = str(spec["name"]), spec.get("options")
    return Tool(
        spec=ToolSpec(name=name, description=str(spec["description"]), input_schema={}),
        run=_never,
        runtime="provider",
        effect=cast(Effect, spec.get("effect") or "read"),
        world="open",
        version=version,
        at_provider=(driver, ProviderTool(name=name, type=type_, options=options if isinstance(options, dict) else {})),
    )


def _schema(value: object) -> Mapping[str, object] | None:
    return value if isinstance(value, Mapping) else None


def tool_of(tool: CallableTool, runtime: ToolRuntime = "builtin", *, version: str = "", asks: bool = False) -> Tool:
    """Returns a tool of `agentvm.tools` as turns call it."""
    return Tool(
        spec=tool.spec,
        run=_never,
        call=tool.run,
        timeout_seconds=tool.timeout_seconds,
        repeatable=tool.repeat != "never",
        runtime=runtime,
        effect=tool.effect,
        world=tool.world,
        writes_files=bool(getattr(tool, "writes_files", False)),
        has_network=bool(getattr(tool, "has_network", False)),
        why_missing=getattr(tool, "why_missing", None),
        version=version,
        asks=asks,
    )


async def _never(values: dict[str, object]) -> object:
    raise ToolFailed("this tool needs a call")
