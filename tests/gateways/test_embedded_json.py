import pytest

from agentvm.errors.bounds import InputTooLarge
from agentvm.gateways.embedded_json import VALUES_MAX, read_arguments, read_value

DEEP = "[" * 100_000
MANY = f"[{'1,' * VALUES_MAX}1]"


def test_arguments_are_a_json_object_or_empty() -> None:
    assert read_arguments('{"city": "Oslo", "days": [1]}') == {"city": "Oslo", "days": [1]}
    assert [read_arguments(text) for text in ("", "{", "[]", "null", '{"a"}')] == [{}] * 5


@pytest.mark.parametrize("text", [DEEP, f'{{"a":{DEEP}}}', MANY], ids=["deep", "deep within", "many"])
def test_arguments_beyond_the_bound_are_refused_and_values_stay_text(text: str) -> None:
    with pytest.raises(InputTooLarge, match="The arguments of a call"):
        read_arguments(text)
    assert read_value(text) == text


def test_a_value_is_what_its_text_says() -> None:
    assert [read_value(text) for text in ('{"a":1}', "[2]", "3", "{", "sunny")] == [{"a": 1}, [2], 3, "{", "sunny"]
