"""Choices — the words of a request for the tools that its first answer calls, and for how long its model thinks. Pure."""

from collections.abc import Iterable
from typing import Any

from agentvm.errors import InvalidInput, Unprocessable, shorten
from agentvm.model.turn import ANY_TOOL
from agentvm.operations.rpc_params import THINKING_TOKENS

ToolChoice = str | dict[str, Any] | None
MOST, LEAST = ("xhigh", "max"), ("none", "minimal", "auto", "default")
"""The words without a number of tokens: for the largest of these numbers, and for the agent's own."""


def read_tools(chosen: ToolChoice, tools: Iterable[dict[str, object]]) -> dict[str, object]:
    """Returns the tools as options of a turn, with the choice among them; `InvalidInput` for a tool that is not there."""
    listed = tuple(tools)
    match chosen:
        case "none":
            return {}
        case None | "auto":
            return {"tools": listed}
        case "required":
            return {"tools": listed, "toolChoice": ANY_TOOL}
        case {"type": "function", "function": {"name": str(name)}} | {"type": "function", "name": str(name)}:
            if all(tool["name"] != name for tool in listed):
                raise InvalidInput(f"tool_choice: {shorten(name)} is none of the tools")
            return {"tools": listed, "toolChoice": name}
        case {"type": str(kind)}:
            raise Unprocessable(f"tool_choice: the type {kind[:40]!r} is not supported here")
        case _:
            raise InvalidInput("tool_choice must be auto, none, required, or a function of tools")


def read_effort(word: str | None, member: str) -> int | None:
    """Returns the tokens to think with; None for the agent's own. `InvalidInput` for an unknown word."""
    if word is None or word in LEAST:
        return None
    tokens = THINKING_TOKENS.get("high" if word in MOST else word)
    if tokens is None:
        raise InvalidInput(f"{member} must be one of {', '.join((*LEAST, *THINKING_TOKENS, *MOST))}")
    return tokens


def shown_choice(choice: str | None) -> object:
    """Returns a choice as responses have it."""
    return {"type": "function", "name": choice} if choice not in (None, ANY_TOOL) else choice or "auto"
