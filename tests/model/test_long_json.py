import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.model.long_json import LONG_BYTES, folded, read_json, unfolded

VALUES = st.recursive(
    st.text() | st.integers(-9, 9) | st.booleans() | st.none(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES, st.booleans())
def test_a_value_is_the_same_whether_it_is_held_as_text_or_not(value: object, is_long: bool) -> None:
    whole = [value, "x" * LONG_BYTES] if is_long else value
    held = folded(whole)
    assert isinstance(held, msgspec.Raw) == (len(msgspec.json.encode(whole)) > LONG_BYTES)
    assert unfolded(held) == whole
    assert msgspec.json.encode({"a": held}) == msgspec.json.encode({"a": whole})


@pytest.mark.parametrize("padding", [b"", b" " * LONG_BYTES])
@pytest.mark.parametrize("body", [b"", b"{", b"[1,]", b'["\xff"]', b'{"a":1}{', b"[" * 100_000 + b"]" * 100_000])
def test_a_text_that_is_no_json_is_refused_however_long_it_is(body: bytes, padding: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_json(body + padding)


def test_a_long_text_is_not_made_of_objects_and_has_no_spaces_between_them() -> None:
    lists = read_json(b"[" + b"[], " * LONG_BYTES + b"0 ]")
    assert isinstance(lists, msgspec.Raw)
    assert len(bytes(lists)) == 3 * LONG_BYTES + 3
