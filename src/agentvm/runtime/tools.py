"""Tools — the port through which a turn calls tools. A failing or hanging tool is a result, never the turn's failure."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import anyio
import msgspec

from agentvm.drivers.base import ToolSpec
from agentvm.errors import ToolFailed
from agentvm.model.message import ToolCall
from agentvm.model.text import sound

Run = Callable[[dict[str, object]], Awaitable[object]]
"""Takes the call's input, gives any JSON value; raises `ToolFailed` with a text the model can act upon."""

DEADLINE = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool the runtime can run."""

    spec: ToolSpec
    run: Run
    deadline: float = DEADLINE
    repeatable: bool = False
    """Running it twice is as good as once, so it may run again after a crash."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call came to: a JSON value, or the text of an error."""

    result: object
    is_error: bool


class Toolbox:
    """The tools of this process, by name."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools: Mapping[str, Tool] = {tool.spec.name: tool for tool in tools}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    def specs(self, names: Sequence[str] | None) -> tuple[ToolSpec, ...]:
        """The named tools as the model sees them; all of them for None. A name nobody has is left out."""
        chosen = self._tools if names is None else [name for name in names if name in self._tools]
        return tuple(self._tools[name].spec for name in chosen)

    def may_repeat(self, name: str) -> bool:
        return name in self._tools and self._tools[name].repeatable

    def unknown(self, names: Sequence[str]) -> tuple[str, ...]:
        return tuple(name for name in names if name not in self._tools)

    async def run(self, call: ToolCall, allowed: Sequence[str]) -> Outcome:
        tool = self._tools.get(call.name) if call.name in allowed else None
        if tool is None:
            return Outcome(f"there is no tool named {call.name!r}; available: {', '.join(allowed) or 'none'}", True)
        try:
            with anyio.fail_after(tool.deadline):
                return _checked(call.name, await tool.run(call.input))
        except ToolFailed as error:
            return Outcome(sound(str(error)), True)
        except TimeoutError:
            return Outcome(f"{call.name} did not finish within {tool.deadline:g} seconds", True)


def _checked(name: str, result: object) -> Outcome:
    """Here, because later it could only be the turn's failure."""
    if isinstance(result, str):
        return Outcome(sound(result), False)
    try:
        msgspec.json.encode(result)
    except (TypeError, ValueError, RecursionError) as error:
        return Outcome(f"{name} gave a result that is no JSON: {type(error).__name__}", True)
    return Outcome(result, False)
