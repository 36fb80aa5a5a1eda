"""Tools — what a turn can call. A tool that fails, hangs or returns too much gives a result, never the turn's failure.

Each turn opens the tools of its tenant and image, as it opens its models, and closes them with its end.
"""

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol, Self

import anyio
import msgspec

from agentvm.drivers.base import ToolSpec
from agentvm.errors import ConfigInvalid, ToolFailed
from agentvm.model.definition import DEFAULT_TOOLS
from agentvm.model.ids import TenantId
from agentvm.model.image import Image
from agentvm.model.message import ToolCall, repair_text
from agentvm.model.tool import Effect, ToolRuntime, World
from agentvm.model.wait import WaitKind
from agentvm.runtime.calls import ToolOutcome
from agentvm.runtime.policy import CallFacts
from agentvm.sharing.cache import Cache

Run = Callable[[dict[str, object]], Awaitable[object]]
"""Takes the call's input, returns any JSON value; raises `ToolFailed` with a text the model can act upon."""

TIMEOUT_SECONDS = 60.0
TOOL_SETS_MAX = 1_000
"""Combinations of tools that are kept."""


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
    waits_for: WaitKind | None = None
    """The party that every call waits for, besides an approval: the client that runs it, or somebody who answers."""


class ToolSet:
    """The tools of one turn: those that the model is told of, and no others can be called."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools: Mapping[str, Tool] = {tool.spec.name: tool for tool in tools}
        self.specs = tuple(tool.spec for tool in self._tools.values())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Tools of this process hold nothing open."""

    def may_repeat(self, name: str) -> bool:
        return name in self._tools and self._tools[name].repeatable

    def waits_for(self, name: str) -> WaitKind | None:
        return self._tools[name].waits_for if name in self._tools else None

    def timeout_seconds(self, name: str) -> float:
        return self._tools[name].timeout_seconds

    def facts(self, call: ToolCall, *, tainted: bool = False) -> CallFacts | None:
        """Returns the properties of a call that a policy decides by; None if there is no such tool."""
        tool = self._tools.get(call.name)
        if tool is None:
            return None
        return CallFacts(
            tool=call.name,
            version=tool.version,
            runtime=tool.runtime,
            effect=tool.effect,
            world=tool.world,
            tainted=tainted,
            asks=tool.asks,
            input=call.input,
        )

    async def run(self, call: ToolCall, *, output_max: int) -> ToolOutcome:
        """Runs the call; of its result at most `output_max` characters are kept."""
        tool = self._tools.get(call.name)
        if tool is None:
            names = ", ".join(self._tools) or "none"
            return ToolOutcome(f"there is no tool named {call.name!r}; available: {names}", True)
        try:
            with anyio.fail_after(tool.timeout_seconds):
                return limit_result(call.name, await tool.run(call.input), output_max)
        except ToolFailed as error:
            return ToolOutcome(_cut(str(error), output_max), True)
        except TimeoutError:
            return ToolOutcome(f"{call.name} did not finish within {tool.timeout_seconds:g} seconds", True)
        except SystemExit:
            # It would end the server.
            return ToolOutcome(f"{call.name} tried to end its process", True)
        except anyio.get_cancelled_exc_class():
            if anyio.current_effective_deadline() == -math.inf:
                raise
            # Not the turn was cancelled, but something the tool waited for; passed on, it would end the calls beside it.
            return ToolOutcome(f"{call.name} was cancelled from within", True)


class ToolSource(Protocol):
    """Resolves tools per tenant and image."""

    def names(self, tenant_id: TenantId | None) -> tuple[str, ...]:
        """Returns the tools that images of the tenant can name; None for those that every tenant has."""

    def open(self, tenant_id: TenantId, image: Image) -> AbstractAsyncContextManager[ToolSet]:
        """Returns the tools of one turn, to be held until it ends."""


class ServerTools:
    """The tools of this process, the same for every tenant. An image has those that its definition names.

    A definition that names none has the tools of `default`, which does not grow when the server gets more tools.
    """

    def __init__(self, tools: Sequence[Tool], *, default: Sequence[str] = DEFAULT_TOOLS) -> None:
        self._tools: Mapping[str, Tool] = {tool.spec.name: tool for tool in tools}
        if len(self._tools) < len(tools):
            names = [tool.spec.name for tool in tools]
            raise ConfigInvalid(f"Two tools are called {next(name for name in names if names.count(name) > 1)}")
        self._default = tuple(default)
        self._sets: Cache[tuple[str, ...], ToolSet] = Cache(TOOL_SETS_MAX)

    def names(self, tenant_id: TenantId | None) -> tuple[str, ...]:
        return tuple(self._tools)

    def open(self, tenant_id: TenantId, image: Image) -> ToolSet:
        names = self._default if image.definition.tools is None else tuple(image.definition.tools)
        tools = self._sets.get(names)
        if tools is None:
            # A name that this process does not have is left out: an image may be older than the server.
            tools = ToolSet([self._tools[name] for name in names if name in self._tools])
            self._sets.put(names, tools)
        return tools


def limit_result(name: str, result: object, output_max: int) -> ToolOutcome:
    """Returns at most `output_max` characters of a result. Whether it is JSON is checked here: it could fail the turn."""
    if isinstance(result, str):
        return ToolOutcome(_cut(result, output_max), False)
    try:
        body = msgspec.json.encode(result)
    except (TypeError, ValueError, RecursionError) as error:
        return ToolOutcome(f"{name} gave a result that is no JSON: {type(error).__name__}", True)
    return ToolOutcome(result if len(body) <= output_max else _cut(body.decode(), output_max), False)


def _cut(text: str, output_max: int) -> str:
    """Returns as much of the text as is kept, as text that JSON can carry; a note says what is missing."""
    if len(text) <= output_max:
        return repair_text(text)
    return f"{repair_text(text[:output_max])}\n[cut off: the result has {len(text)} characters]"
