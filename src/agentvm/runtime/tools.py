"""Tools — the tools that a turn can call. A tool that fails, hangs or returns too much gives a result, never the turn's
failure.

Each turn opens the tools of its tenant and image, as it opens its models, and closes them with its end.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from agentvm.drivers.base import ProviderTool, ToolSpec
from agentvm.errors import AgentVMError, ConfigInvalid
from agentvm.log import get_logger
from agentvm.model.definition import DEFAULT_TOOLS, Rendered
from agentvm.model.ids import TenantId
from agentvm.model.image import Image
from agentvm.model.message import ToolCall
from agentvm.model.usage import estimate_tokens
from agentvm.model.wait import WaitKind
from agentvm.resources.kinds import RUNNABLE_TOOLS
from agentvm.resources.schema import SchemaCheck
from agentvm.runtime.policy import CallFacts
from agentvm.runtime.tool import TIMEOUT_SECONDS as TIMEOUT_SECONDS
from agentvm.runtime.tool import MakeTool, as_described, facts_of, image_tool, with_programs
from agentvm.runtime.tool import Run as Run
from agentvm.runtime.tool import Tool as Tool
from agentvm.runtime.tool import client_tool as client_tool
from agentvm.runtime.tool import tool_of as tool_of
from agentvm.runtime.tool_search import FIND_TOOLS, ToolIndex
from agentvm.sharing.cache import Cache

logger = get_logger(__name__)

NOT_RENDERED = Rendered()
TOOL_SETS_MAX = 1_000
"""Combinations of tools that are kept."""
LISTED_MAX = 40
"""Tools that a model receives; it finds the others with `find_tools`."""
LISTED_MIN = 8
"""Tools that a model receives, however small its window is."""
WINDOW_SHARE = 10
"""The part of a window that tools may fill: a tenth."""
TOOL_LISTS_MAX = 100
"""Selections of one set that are kept."""
DESCRIPTION_MAX = 300
"""Characters of a description in the result of a search."""


class ToolSet:
    """The tools of one turn: those that the model receives, and no others can be called."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._provided = tuple(tool for tool in tools if tool.at_provider is not None)
        tools = [tool for tool in tools if tool.at_provider is None]
        # A program does not call programs; what it writes to the session's files it writes by itself.
        self._callable = tuple(
            tool.spec for tool in tools if tool.beside is None and not tool.writes_files and tool.agent is None
        )
        self._tools: dict[str, Tool] = {tool.spec.name: with_programs(tool, self._callable) for tool in tools}
        self.specs = tuple(tool.spec for tool in self._tools.values())
        self.is_large = len(self.specs) > LISTED_MIN
        """Whether a model may be told a part of them only."""
        self._spec_lists: dict[tuple[int, tuple[str, ...]], tuple[ToolSpec, ...]] = {}
        if self.is_large:
            self._tools.setdefault(FIND_TOOLS.name, Tool(spec=FIND_TOOLS, run=self._search, repeatable=True))
        self._inputs: dict[str, list[SchemaCheck]] = {}
        self._index: ToolIndex | None = None
        self._tokens: tuple[int, ...] | None = None

    async def __aenter__(self) -> "ToolSet":
        """Returns the tools that this machine can run."""
        own = [self._tools[spec.name] for spec in self.specs]
        tools = [tool for tool in own if tool.why_missing is None or await tool.why_missing() is None]
        return self if len(tools) == len(own) else ToolSet([*tools, *self._provided])

    async def __aexit__(self, *_: object) -> None:
        """Tools of this process hold nothing open."""

    def joined(self, others: Sequence[Tool]) -> "ToolSet":
        """Returns these tools and the others, which take the place of those that have the same names."""
        if not others:
            return self
        names = {tool.spec.name for tool in others}
        return ToolSet([*(self._tools[spec.name] for spec in self.specs if spec.name not in names), *others])

    def specs_for(self, window: int, names: tuple[str, ...] = ()) -> tuple[ToolSpec, ...]:
        """Returns the tools that a model with this window receives: all, or the first, `find_tools`, and those `found`."""
        if not self.is_large:
            return self.specs
        first = self._first(window // WINDOW_SHARE)
        if first == len(self.specs):
            return self.specs
        cached = self._spec_lists.get((first, names))
        if cached is None:
            # The same object each time: the JSON of tools is kept by it.
            begin, rest = self.specs[:first], {spec.name: spec for spec in self.specs[first:]}
            cached = (*begin, FIND_TOOLS, *(rest[name] for name in names if name in rest))
            if len(self._spec_lists) >= TOOL_LISTS_MAX:
                self._spec_lists.clear()
            self._spec_lists[first, names] = cached
        return cached

    def provided(self, driver: str, *, tainted: bool) -> tuple[tuple[ProviderTool, CallFacts], ...]:
        """Returns the tools that the provider of a driver runs, each with the facts that decide whether it may."""
        offered = [(tool, tool.at_provider[1]) for tool in self._provided if tool.at_provider and tool.at_provider[0] == driver]
        return tuple(
            (at_provider, facts_of(tool, ToolCall(id="", name=at_provider.name, input={}), tainted=tainted))
            for tool, at_provider in offered
        )

    def _first(self, tokens_max: int) -> int:
        """Returns how many of the tools fit into this many tokens."""
        tokens = 0
        for number, size in enumerate(self._sizes()):
            tokens += size
            if number >= LISTED_MAX or (number >= LISTED_MIN and tokens > tokens_max):
                return number
        return len(self.specs)

    def _sizes(self) -> tuple[int, ...]:
        if self._tokens is None:
            self._tokens = tuple(estimate_tokens(msgspec.json.encode(spec).decode()) for spec in self.specs)
        return self._tokens

    async def _search(self, values: dict[str, object]) -> object:
        if self._index is None:
            self._index = ToolIndex(self.specs)
        specs = self._index.search(str(values["query"]))
        return {"tools": [{"name": spec.name, "description": spec.description[:DESCRIPTION_MAX]} for spec in specs]}

    def may_repeat(self, name: str) -> bool:
        return name in self._tools and self._tools[name].repeatable

    def callable_by(self, name: str) -> tuple[ToolSpec, ...]:
        """Returns the tools that a call of this tool may call in turn; none for one that runs no programs."""
        tool = self._tools.get(name)
        return () if tool is None or tool.beside is None else self._callable

    def waits_for(self, name: str) -> WaitKind | None:
        return self._tools[name].waits_for if name in self._tools else None

    def timeout_seconds(self, name: str) -> float:
        return self._tools[name].timeout_seconds if name in self._tools else TIMEOUT_SECONDS

    def facts(self, call: ToolCall, *, tainted: bool = False) -> CallFacts | None:
        """Returns the properties of a call that a policy decides by; None if there is no such tool."""
        tool = self._tools.get(call.name)
        return None if tool is None else facts_of(tool, call, tainted=tainted)

    def misfits(self, call: ToolCall) -> list[str]:
        """Returns the faults of a call's input, each with its path; `AgentVMError` for an input that cannot be checked."""
        checks = self._inputs.get(call.name)
        if checks is None:
            tool = self._tools[call.name]
            schemas = [schema for schema in (tool.spec.input_schema, tool.also_fits) if schema is not None]
            checks = self._inputs[call.name] = [SchemaCheck("input", schema) for schema in schemas]
        # A fault of both schemas is one.
        return list(dict.fromkeys(str(misfit) for check in checks for misfit in check.misfits(call.input)))

    def find(self, name: str) -> Tool | None:
        return self._tools.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)


class ToolSource(Protocol):
    """Resolves tools per tenant and image."""

    def names(self, tenant_id: TenantId | None) -> tuple[str, ...]:
        """Returns the tools that images of the tenant can name; None for those that every tenant has."""

    async def missing(self, names: Collection[str], rendered: Rendered = NOT_RENDERED) -> Mapping[str, str]:
        """Returns which of these tools, of the server and of an image, this machine cannot run, and why, with the remedy."""

    def of_spec(self, spec: Mapping[str, object]) -> Tool | None:
        """Returns the tool of a rendered resource; None for a kind that this server cannot run."""

    def open(self, tenant_id: TenantId, image: Image) -> AbstractAsyncContextManager[ToolSet]:
        """Returns the tools of one turn, to be held until it ends."""


class ServerTools:
    """The tools of this process, the same for every tenant. An image has those that its definition names.

    A definition that names none has the tools of `default`, which does not grow when the server gets more tools.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        *,
        default: Sequence[str] = DEFAULT_TOOLS,
        make: MakeTool = lambda spec: None,
    ) -> None:
        self._tools: Mapping[str, Tool] = {tool.spec.name: tool for tool in tools}
        if len(self._tools) < len(tools):
            names = [tool.spec.name for tool in tools]
            raise ConfigInvalid(f"Two tools are called {next(name for name in names if names.count(name) > 1)}")
        self._default = tuple(default)
        self._make = make
        self._sets: Cache[tuple[str, ...], ToolSet] = Cache(TOOL_SETS_MAX)

    def names(self, tenant_id: TenantId | None) -> tuple[str, ...]:
        return tuple(self._tools)

    async def missing(self, names: Collection[str], rendered: Rendered = NOT_RENDERED) -> Mapping[str, str]:
        tools = [tool for tool in self._all(names, rendered) if tool.why_missing is not None]
        reasons = [(tool.spec.name, await tool.why_missing()) for tool in tools if tool.why_missing is not None]
        return {name: why for name, why in reasons if why is not None}

    def of_spec(self, spec: Mapping[str, object]) -> Tool | None:
        if spec.get("runtime") == "builtin":
            tool = self._tools.get(str(spec.get("entry")))
            return None if tool is None else as_described(tool, spec)
        return image_tool(spec, self._make) if spec.get("runtime") in RUNNABLE_TOOLS else None

    def open(self, tenant_id: TenantId, image: Image) -> ToolSet:
        definition = image.definition
        names = self._default if definition.tools is None else tuple(definition.tools)
        rendered = definition.rendered or NOT_RENDERED
        # Two images with the same digest have the same specs.
        key = (*names, image.digest) if rendered.tools or rendered.sandbox else names
        tools = self._sets.get(key)
        if tools is None:
            tools = ToolSet(self._all(names, rendered))
            self._sets.put(key, tools)
        return tools

    def _all(self, names: Collection[str], rendered: Rendered) -> list[Tool]:
        """Returns the tools that this process has: an image may be older than the server."""
        specs = tuple(_with_sandbox(spec, rendered.sandbox) for spec in rendered.tools)
        opened = (self._open(name, rendered.sandbox, specs) for name in names)
        return [tool for tool in opened if tool is not None]

    def _open(self, name: str, sandbox: Mapping[str, object] | None, specs: Sequence[Mapping[str, object]]) -> Tool | None:
        # A build gives no tool the name of one of the server; a later server may have gained one of that name.
        brought = any(spec.get("name") == name and spec.get("runtime") in RUNNABLE_TOOLS for spec in specs)
        return self._of_image(name, specs) if brought else self._own(name, sandbox, specs)

    def _own(self, name: str, sandbox: Mapping[str, object] | None, specs: Sequence[Mapping[str, object]]) -> Tool | None:
        """Returns a tool of the server, in the sandbox of the image if it runs in one; the image may want it approved."""
        tool = self._tools.get(name)
        about = [spec for spec in specs if (spec.get("runtime"), spec.get("entry")) == ("builtin", name)]
        if tool is None:
            return None
        try:
            tool = tool if tool.within is None or sandbox is None else tool.within(sandbox)
            asks = any(spec.get("ask") for spec in about)
            return as_described(tool, {**about[0], "ask": asks}) if about else tool
        except AgentVMError as error:
            logger.warning("tool_unusable", tool=name, error=str(error))
            return None

    def _of_image(self, name: str, specs: Sequence[Mapping[str, object]]) -> Tool | None:
        """Returns a tool that the image brings along."""
        for spec in specs:
            if spec.get("name") != name or spec.get("runtime") not in RUNNABLE_TOOLS:
                continue
            try:
                return image_tool(spec, self._make)
            except (AgentVMError, msgspec.ValidationError) as error:
                logger.warning("tool_unusable", tool=name, error=str(error))
        return None


def _with_sandbox(spec: Mapping[str, object], sandbox: Mapping[str, object] | None) -> Mapping[str, object]:
    """Returns the spec with the sandbox of the image, if the tool has none of its own."""
    resolved = spec.get("resolved")
    own = resolved if isinstance(resolved, Mapping) else {}
    if sandbox is None or "sandbox" in own or "entry" in own:
        return spec
    return {**spec, "resolved": {**own, "sandbox": sandbox}}
