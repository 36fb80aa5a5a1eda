"""Functions of an embedder as tools."""

from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
import pytest

from agentvm.errors import ConfigInvalid, ToolFailed
from agentvm.runtime.function_tool import as_tool, tool

pytestmark = pytest.mark.anyio


@dataclass
class Place:
    city: str
    zip: int = 0


@tool(effect="read", world="closed")
async def weather(
    place: Place, days: Annotated[int, msgspec.Meta(ge=1, le=7)] = 1, unit: Literal["C", "F"] = "C"
) -> dict[str, object]:
    """Forecasts the weather."""
    return {"city": place.city, "days": days, "unit": unit}


def add(left: int, right: int) -> int:
    """Adds two numbers."""
    return left + right


def test_name_description_and_schema_come_from_the_function() -> None:
    spec = weather.spec
    assert (spec.name, spec.description) == ("weather", "Forecasts the weather.")
    assert spec.input_schema["required"] == ["place"]
    properties = spec.input_schema["properties"]
    assert isinstance(properties, dict)
    assert properties["days"] == {"type": "integer", "minimum": 1, "maximum": 7, "default": 1}
    assert properties["unit"] == {"enum": ["C", "F"], "default": "C"}
    assert spec.input_schema["$defs"]["Place"]["required"] == ["city"]  # type: ignore[index]


async def test_the_function_is_called_with_values_of_its_types() -> None:
    assert await weather.run({"place": {"city": "Oslo"}, "days": 2}) == {"city": "Oslo", "days": 2, "unit": "C"}
    assert await as_tool(add).run({"left": 1, "right": 2}) == 3


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "place is missing"),
        ({"place": {"city": "Oslo"}, "days": 9}, "days"),
        ({"place": {"city": 1}}, "place.city"),
        ({"place": {"city": "Oslo"}, "dayz": 1}, "no field dayz; did you mean days?"),
    ],
)
async def test_an_input_that_does_not_fit_is_told_to_the_model_and_nothing_runs(given: dict[str, object], why: str) -> None:
    with pytest.raises(ToolFailed) as caught:
        await weather.run(given)
    assert why in str(caught.value)


def test_what_a_function_may_do_is_said_by_its_author_or_taken_for_the_worst() -> None:
    assert (weather.effect, weather.world, weather.repeatable) == ("read", "closed", True)
    careful = as_tool(add)
    assert (careful.effect, careful.world, careful.repeatable, careful.asks) == ("write", "open", False, False)
    assert tool(ask=True, name="plus", description="Adds.")(add).asks


def silent(left: int) -> int:
    return left


def variadic(*left: int) -> int:
    """Adds."""
    return sum(left)


def untyped(left) -> int:  # type: ignore[no-untyped-def]
    """Adds."""
    return int(left)


def strange(left: complex) -> int:
    """Adds."""
    return int(left.real)


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (silent, "needs a docstring"),
        (variadic, "takes its arguments by name"),
        (untyped, "needs a type"),
        (strange, "JSON cannot carry"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_refused_when_it_is_given(function: object, why: str) -> None:
    with pytest.raises(ConfigInvalid, match=why):
        as_tool(function)  # type: ignore[arg-type]
