import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.runtime.tool_input import DEPTH_MAX, depth_of, depth_of_text, parse_input


def nested(depth: int) -> str:
    return '{"a":' * (depth - 1) + "{}" + "}" * (depth - 1)


@pytest.mark.parametrize(
    ("json", "arguments"),
    [("", {}), (" ", {}), ("{}", {}), ('{"a": 1}', {"a": 1})],
)
def test_an_object_is_the_input_and_nothing_is_an_empty_one(json: str, arguments: dict[str, object]) -> None:
    assert parse_input(json) == (arguments, None)


@pytest.mark.parametrize("json", ["[1]", '"text"', '{"a": ', "{" * 5_000, nested(DEPTH_MAX + 1)])
def test_what_is_no_object_or_nested_too_deeply_is_refused_with_a_reason(json: str) -> None:
    arguments, problem = parse_input(json)
    assert arguments == {}
    assert problem is not None


def test_the_deepest_that_is_allowed_is_taken() -> None:
    assert parse_input(nested(DEPTH_MAX))[1] is None


JSON = st.recursive(st.text('[]{}"\\a'), lambda inner: st.lists(inner) | st.dictionaries(st.text('[]{}"\\'), inner))


@given(JSON)
def test_the_text_of_a_value_is_as_deep_as_the_value(value: object) -> None:
    levels = depth_of(value) - (0 if isinstance(value, dict | list) else 1)
    assert depth_of_text(msgspec.json.encode(value).decode()) in (levels, levels - 1)
