"""Tools — the port through which a turn calls tools. A failing, hanging or loud tool is a result, never the turn's failure."""

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import anyio
import msgspec

from agentvm.drivers.base import ToolSpec
from agentvm.errors import ToolFailed
from agentvm.model.limits import Limits
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

    def __init__(self, tools: Sequence[Tool], limits: Limits | None = None) -> None:
        self._longest = (limits or Limits()).tool_output
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

    async def run(self, call: ToolCall, allowed: Sequence[str], *, longest: int | None = None) -> Outcome:
        """`longest` is how much of the result is kept; None for what the toolbox was made with."""
        most = self._longest if longest is None else longest
        tool = self._tools.get(call.name) if call.name in allowed else None
        if tool is None:
            return Outcome(f"there is no tool named {call.name!r}; available: {', '.join(allowed) or 'none'}", True)
        try:
            with anyio.fail_after(tool.deadline):
                return _checked(call.name, await tool.run(call.input), most)
        except ToolFailed as error:
            return Outcome(_cut(str(error), most), True)
        except TimeoutError:
            return Outcome(f"{call.name} did not finish within {tool.deadline:g} seconds", True)
        except SystemExit:
            # It would end the server.
            return Outcome(f"{call.name} tried to end its process", True)
        except anyio.get_cancelled_exc_class():
            if anyio.current_effective_deadline() == -math.inf:
                raise
            # Not the turn was cancelled, but something the tool waited for; passed on, it would end the calls beside it.
            return Outcome(f"{call.name} was cancelled from within", True)


def _checked(name: str, result: object, most: int) -> Outcome:
    """Here, because later it could only be the turn's failure."""
    if isinstance(result, str):
        return Outcome(_cut(result, most), False)
    try:
        body = msgspec.json.encode(result)
    except (TypeError, ValueError, RecursionError) as error:
        return Outcome(f"{name} gave a result that is no JSON: {type(error).__name__}", True)
    return Outcome(result if len(body) <= most else _cut(body.decode(), most), False)


def _cut(text: str, most: int) -> str:
    """As much of the text as is kept, as text that JSON can carry; a note says what is missing."""
    if len(text) <= most:
        return sound(text)
    return f"{sound(text[:most])}\n[cut off: the result has {len(text)} characters]"
