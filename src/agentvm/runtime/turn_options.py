"""Turn options — the choices of a message's sender for its turn: whether they are allowed, and the definition with them."""

from collections.abc import Collection, Sequence

import msgspec

from agentvm.drivers.base import ToolSpec
from agentvm.errors import InvalidInput, Unprocessable
from agentvm.errors.resource import ResourceInvalid
from agentvm.errors.validation import explain
from agentvm.model.definition import Definition
from agentvm.model.turn import ANY_TOOL, DEFAULT_OPTIONS, TurnOptions
from agentvm.resources.schema import check_schema
from agentvm.runtime.tools import Tool, ToolSet, client_tool

UNREAD = "client_data"
"""The member of the options that changes nothing of the turn."""
USER_INSTRUCTIONS = "Instructions of the user:"


def check_options(definition: Definition, options: TurnOptions | None) -> None:
    """`Unprocessable` for an option that the definition does not let a sender choose, `InvalidInput` for a wrong value."""
    if options is None:
        return
    try:
        # Options that a gateway has put together were not decoded, and a turn with a wrong value could not be read again.
        msgspec.convert(msgspec.to_builtins(options), TurnOptions)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"The options are invalid: {explain(error, TurnOptions)}") from None
    allowed = (*_allowed(definition), UNREAD)
    for field in msgspec.structs.fields(TurnOptions):
        if getattr(options, field.name) not in (None, ()) and field.name not in allowed:
            raise Unprocessable(f"This agent does not let a message choose {field.encode_name} (turnOptions of its definition)")
    if options.output is not None:
        try:
            check_schema("output.schema", options.output.schema)
        except ResourceInvalid as error:
            raise Unprocessable(str(error)) from None
    names = {tool.name for tool in options.tools}
    if len(names) < len(options.tools):
        raise Unprocessable("Two of the tools have the same name")
    choice = options.tool_choice
    # The tools of an agent that names none are those of its server, which are known when the turn runs.
    if choice is not None and definition.tools is not None and choice not in {ANY_TOOL, *definition.tools, *names}:
        raise Unprocessable(f"toolChoice: there is no tool {choice} in this turn")


def still_allowed(definition: Definition, options: TurnOptions | None) -> TurnOptions | None:
    """Returns the options of an earlier message that a sender may choose now; not the client's own text."""
    if options is None:
        return None
    return TurnOptions(**{name: getattr(options, name) for name in _allowed(definition)})


def _allowed(definition: Definition) -> tuple[str, ...]:
    allowed = DEFAULT_OPTIONS if definition.turn_options is None else definition.turn_options
    return (*allowed, "tool_choice") if "tools" in allowed else allowed


def apply_options(definition: Definition, options: TurnOptions | None) -> Definition:
    """Returns the definition of a turn."""
    if options is None:
        return definition
    prompt = definition.system_prompt
    if options.instructions:
        prompt = "\n\n".join(filter(None, (prompt, f"{USER_INSTRUCTIONS}\n{options.instructions}")))
    return msgspec.structs.replace(
        definition,
        system_prompt=prompt,
        model=options.model or definition.model,
        temperature=definition.temperature if options.temperature is None else options.temperature,
        max_tokens=options.max_tokens or definition.max_tokens,
        thinking=options.thinking or definition.thinking,
        output=options.output or definition.output,
    )


def add_tools(tools: ToolSet, options: TurnOptions | None) -> ToolSet:
    """Returns the tools of a turn: those of its sender, and those of its image that have other names."""
    return tools if options is None or not options.tools else tools.joined(_tools(options))


def choose_tool(options: TurnOptions | None, tools: Sequence[ToolSpec], earlier_calls: Collection[str]) -> str | None:
    """Returns the tool that the next answer of a turn has to call; after its first calls the model is free again."""
    choice = None if options is None or earlier_calls else options.tool_choice
    is_there = bool(tools) if choice == ANY_TOOL else any(tool.name == choice for tool in tools)
    return choice if is_there else None


def _tools(options: TurnOptions) -> list[Tool]:
    return [
        client_tool(ToolSpec(name=tool.name, description=tool.description, input_schema=tool.parameters or {"type": "object"}))
        for tool in options.tools
    ]
