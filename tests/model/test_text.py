import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.model.text import repair_text


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_sound_text_is_left_alone(text: str) -> None:
    assert repair_text(text) is text


@given(st.text(st.characters()))
def test_any_text_becomes_encodable(text: str) -> None:
    assert repair_text(text).encode().decode() == repair_text(text)


@pytest.mark.parametrize(("text", "expected"), [("a\ud800b", "a\ufffdb"), ("\ud83d\ude00", "😀"), ("\udc00", "\ufffd")])
def test_only_lone_halves_are_replaced(text: str, expected: str) -> None:
    assert repair_text(text) == expected
