import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runtime.fixtures import run_tool

from agentvm.errors import ToolFailed
from agentvm.runtime.builtin_tools import EXPRESSION_MAX, builtin_tools, calculate, current_time_tool
from agentvm.runtime.calls import ToolOutcome
from agentvm.runtime.tools import ToolSet

NOON = 1_794_744_000_000
TOOLS = ToolSet(builtin_tools(lambda: NOON))


async def run(name: str, **arguments: object) -> ToolOutcome:
    return await run_tool(TOOLS, name, 1_000, **arguments)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2+3*4", 14),
        ("(2 + 3) * 4", 20),
        ("7 // 2 + 7 % 2", 4),
        ("2**10", 1024),
        ("-3 + +4", 1),
        ("1/4", 0.25),
        ("sqrt(16) + abs(-1)", 5.0),
        ("floor(2.5) + ceil(2.5) + round(2.4)", 7),
        ("  pi - pi ", 0.0),
        ("2 ** 100", 2**100),
        ("0 ** 5", 0),
        ("10**-2", 0.01),
    ],
)
def test_arithmetic_is_computed(expression: str, value: float) -> None:
    assert calculate(expression) == value


@pytest.mark.parametrize(
    "attack",
    [
        "__import__('os').system('id')",
        "().__class__.__bases__",
        "open('x')",
        "sqrt.__self__",
        "abs(x=1)",
        "abs(1, 2)",
        "abs(*[1])",
        "(lambda: 1)()",
        "[1 for _ in range(9)]",
        "'a' * 9",
        "True + 1",
        "1j * 1j",
        "x",
        "sqrt",
        "1 if 1 else 2",
        "1 < 2",
        "~1",
        "1 << 9",
        "1 @ 2",
        "not 1",
        "f'{1}'",
        "(1, 2)",
        "x := 1",
        "import os",
        "1; 2",
        "",
        "   ",
        "1 +",
        "\x00",
        "1\n2",
    ],
)
def test_only_arithmetic_is_understood(attack: str) -> None:
    with pytest.raises(ToolFailed):
        calculate(attack)


@pytest.mark.parametrize(
    "attack",
    [
        "9**9**9**9",
        "10**301",
        "9**999999999",
        "(10**300)**(10**300)",
        "2**-99999999999",
        "10**300*10**300",
        "1e308*10",
        "1e999",
        "exp(1e9)",
        "1/0",
        "1//0",
        "1%0",
        "0**-1",
        "(-8)**0.5",
        "sqrt(-1)",
        "log(0)",
        "log(-1)",
        "1e308 - -1e308",
        "1e999 - 1e999",
        "floor(1e999)",
        "round(1e999)",
        "1.5 ** 1e308",
        "1" * 400,
        "9" * (EXPRESSION_MAX + 1),
        "(" * 240 + "1" + ")" * 240,
        "+".join("1" * 200) + "+" * 50,
    ],
)
def test_what_is_too_large_too_deep_or_undefined_is_a_failure_the_model_can_read(attack: str) -> None:
    with pytest.raises(ToolFailed) as failed:
        calculate(attack)
    assert len(str(failed.value)) < 2 * EXPRESSION_MAX


@given(st.text(alphabet="0123456789.+-*/%() episqrtlognfabc_,", max_size=60) | st.text(max_size=30))
def test_any_text_is_a_finite_number_or_a_failure(expression: str) -> None:
    try:
        value = calculate(expression)
    except ToolFailed:
        return
    assert isinstance(value, int | float)
    assert math.isfinite(value)


@given(st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6))
def test_sums_and_products_are_pythons(one: int, other: int) -> None:
    assert calculate(f"{one} + {other} * ({one} - {other})") == one + other * (one - other)


async def test_the_calculator_says_what_it_needs() -> None:
    assert await run("calculator", expression="6*7") == ToolOutcome(42, False)
    for arguments in ({}, {"expression": 5}, {"expression": None}):
        outcome = await run("calculator", **arguments)
        assert outcome.is_error
        assert "expression" in str(outcome.result)


async def test_the_time_is_told_in_any_time_zone() -> None:
    assert await run("current_time") == ToolOutcome("2026-11-15T12:00:00+00:00", False)
    assert await run("current_time", timezone="UTC") == ToolOutcome("2026-11-15T12:00:00+00:00", False)
    assert await run("current_time", timezone="Asia/Shanghai") == ToolOutcome("2026-11-15T20:00:00+08:00", False)


@pytest.mark.parametrize(
    "zone", ["Mars/Olympus", "", "../etc/passwd", "/etc/passwd", "a\x00b", "x" * 100_000, "Asia", "\ud800"]
)
async def test_an_unknown_time_zone_is_a_failure_the_model_can_read(zone: str) -> None:
    with pytest.raises(ToolFailed) as failed:
        current_time_tool(NOON, zone)
    assert len(str(failed.value)) < 200


@pytest.mark.parametrize("zone", [None, 5, ["UTC"], {"a": 1}])
async def test_a_time_zone_that_is_no_text_means_utc(zone: object) -> None:
    assert current_time_tool(NOON, zone) == "2026-11-15T12:00:00+00:00"
