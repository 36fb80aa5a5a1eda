"""Built-in tools — the time and a calculator, which an image has that names no tools."""

import ast
import math
import operator
from collections.abc import Callable
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from agentvm.drivers.base import ToolSpec
from agentvm.errors import ToolFailed
from agentvm.model.ids import Clock
from agentvm.runtime.tools import Tool

Number = int | float

EXPRESSION_MAX = 500
MAGNITUDE_MAX = 10**300
"""Keeps whole-number powers from growing without bound."""

_BINARY: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_UNARY: dict[type[ast.unaryop], Callable[[Number], Number]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
_CONSTANTS: dict[str, Number] = {"pi": math.pi, "e": math.e}
_FUNCTIONS: dict[str, Callable[[Number], Number]] = {
    "sqrt": math.sqrt,
    "abs": abs,
    "round": round,
    "floor": math.floor,
    "ceil": math.ceil,
    "log": math.log,
    "log10": math.log10,
    "exp": math.exp,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
}


def builtin_tools(clock: Clock) -> tuple[Tool, ...]:
    async def current_time(arguments: dict[str, object]) -> object:
        return current_time_tool(clock(), arguments.get("timezone", "UTC"))

    return (
        Tool(
            spec=ToolSpec(
                name="current_time",
                description="The current date and time, optionally in an IANA time zone such as Asia/Shanghai.",
                input_schema={
                    "type": "object",
                    "properties": {"timezone": {"type": "string", "description": "IANA name, default UTC"}},
                },
            ),
            run=current_time,
            repeatable=True,
        ),
        Tool(
            spec=ToolSpec(
                name="calculator",
                description="Computes arithmetic: + - * / // % **, parentheses, sqrt, log, sin, pi, e and the like.",
                input_schema={
                    "type": "object",
                    "properties": {"expression": {"type": "string", "description": "for example (2 + 3) * 4"}},
                    "required": ["expression"],
                },
            ),
            run=_calculator,
            repeatable=True,
        ),
    )


def current_time_tool(now: int, timezone: object) -> str:
    try:
        zone = ZoneInfo(timezone) if isinstance(timezone, str) and timezone != "UTC" else UTC
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ToolFailed(f"unknown time zone {str(timezone)[:50]!r}; use an IANA name such as Europe/Paris") from None
    return datetime.fromtimestamp(now / 1000, zone).isoformat(timespec="seconds")


def calculate(expression: str) -> Number:
    """Walks the expression's syntax tree; nothing in it is ever executed."""
    if len(expression) > EXPRESSION_MAX:
        raise ToolFailed(f"the expression is longer than {EXPRESSION_MAX} characters")
    try:
        tree = ast.parse(expression.strip(), mode="eval")
        value = _value(tree.body)
    except (SyntaxError, RecursionError, MemoryError):
        raise ToolFailed(f"{expression!r} is not an arithmetic expression") from None
    except (ArithmeticError, ValueError) as error:
        raise ToolFailed(f"cannot compute {expression!r}: {error}") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise ToolFailed(f"{expression!r} is out of range")
    return value


async def _calculator(arguments: dict[str, object]) -> object:
    expression = arguments.get("expression")
    if not isinstance(expression, str):
        raise ToolFailed("calculator needs an `expression` string")
    return calculate(expression)


def _value(node: ast.expr) -> Number:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _bounded(number)
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            return _UNARY[type(op)](_value(operand))
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power(_value(left), _value(right))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _bounded(_BINARY[type(op)](_value(left), _value(right)))
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](_value(argument))
        case _:
            raise ToolFailed("only numbers, arithmetic and functions such as sqrt are allowed")


def _power(base: Number, exponent: Number) -> Number:
    if base and abs(exponent) * math.log10(abs(base) + 1) > 300:
        raise ToolFailed("the power is too large")
    result = base**exponent
    if isinstance(result, complex):
        raise ToolFailed("the result is not a real number")
    return _bounded(result)


def _bounded(number: Number) -> Number:
    if isinstance(number, int) and abs(number) > MAGNITUDE_MAX:
        raise ToolFailed("the number is too large")
    return number
