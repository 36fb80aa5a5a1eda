"""Function tool — a Python function of the embedding program as a tool. Name, description and schema come from the function.

@tool(effect="write")
async def send_mail(to: str, subject: str, urgent: bool = False) -> str:
    "Sends a mail."
"""

import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, get_type_hints, overload

import anyio.to_thread
import msgspec

from agentvm.drivers.base import ToolSpec
from agentvm.errors import ConfigInvalid, ToolFailed
from agentvm.errors.validation import explain
from agentvm.model.tool import Effect, World, default_repeat
from agentvm.runtime.tools import TIMEOUT_SECONDS, Tool
from agentvm.tools.base import CallResult

Function = Callable[..., Any]


@overload
def tool(function: Function, /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Effect = "write",
    world: World = "open",
    ask: bool = False,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> Callable[[Function], Tool]: ...


def tool(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Effect = "write",
    world: World = "open",
    ask: bool = False,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> Tool | Callable[[Function], Tool]:
    """Makes a tool of a function, plain or `async`. A plain one runs in a thread.

    A tool that writes to the world waits for an approval unless a rule of `tools.policy` allows it: say `effect="read"` for
    one that only reads, and `world="closed"` for one that reaches nothing beyond this program.
    """
    if function is None:
        return lambda values: _tool_of(values, name, description, effect, world, ask, timeout_seconds)
    return _tool_of(function, name, description, effect, world, ask, timeout_seconds)


def as_tool(candidate: Tool | Function) -> Tool:
    """Returns a tool of an embedder; a bare function is one that may write to the world."""
    return candidate if isinstance(candidate, Tool) else tool(candidate)


def _tool_of(
    function: Function,
    name: str | None,
    description: str | None,
    effect: Effect,
    world: World,
    ask: bool,
    timeout_seconds: float,
) -> Tool:
    called = name or function.__name__
    text = description or (inspect.getdoc(function) or "").strip()
    if not text:
        raise ConfigInvalid(f"The tool {called} needs a docstring or a description: models choose tools by it")
    arguments = _arguments(function, called)
    return Tool(
        spec=ToolSpec(name=called, description=text, input_schema=_schema(arguments, called)),
        run=partial(_run, function, arguments),
        timeout_seconds=timeout_seconds,
        repeatable=default_repeat(effect) == "safe",
        effect=effect,
        world=world,
        asks=ask,
    )


def _arguments(function: Function, name: str) -> type[msgspec.Struct]:
    """Returns a type with the function's parameters as fields."""
    hints = get_type_hints(function, include_extras=True)
    fields: list[Any] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ConfigInvalid(f"The tool {name} takes its arguments by name: {parameter.name} cannot be given so")
        if parameter.name not in hints:
            raise ConfigInvalid(f"The tool {name} needs a type for its parameter {parameter.name}")
        field = (parameter.name, hints[parameter.name])
        fields.append(field if parameter.default is parameter.empty else (*field, parameter.default))
    # A list or dict as a default is copied for each call, as msgspec does it.
    return msgspec.defstruct(f"{name}_arguments", fields, kw_only=True, forbid_unknown_fields=True)


def _schema(arguments: type[msgspec.Struct], name: str) -> dict[str, object]:
    try:
        (schema,), parts = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    except TypeError as error:
        raise ConfigInvalid(f"The tool {name} has a parameter that JSON cannot carry: {error}") from None
    own = parts.pop(str(schema["$ref"]).rpartition("/")[2])
    own.pop("title", None)
    return {**own, **({"$defs": parts} if parts else {})}


async def _run(function: Function, arguments: type[msgspec.Struct], fields: dict[str, object]) -> object:
    try:
        values = msgspec.convert(fields, arguments)
    except msgspec.ValidationError as error:
        raise ToolFailed(f"The input does not fit: {explain(error, arguments)}") from None
    called = {name: getattr(values, name) for name in values.__struct_fields__}
    if inspect.iscoroutinefunction(function):
        running: Awaitable[object] = function(**called)
        return _shown(await running)
    # Abandoned when its time is up: a thread cannot be stopped.
    result = await anyio.to_thread.run_sync(partial(function, **called), abandon_on_cancel=True)
    return _shown(result)


def _shown(result: object) -> object:
    """Returns any JSON value of a function; pictures and files are a `CallResult`."""
    return result if isinstance(result, CallResult) else msgspec.to_builtins(result)
