import io
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.errors.archive import ArchiveTooLarge
from agentvm.sessions import json_items
from agentvm.sessions.json_items import items
from agentvm.sessions.line import Unfit

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


def reader(body: bytes, most: int = 2**30) -> Callable[[int], bytes]:
    """Gives as little at a time as it likes."""
    file = io.BytesIO(body)
    return lambda size: file.read(min(size, most))


def found(body: bytes, most: int = 2**30) -> list[object]:
    return [json.loads(item) for item in items(reader(body, most))]


@given(st.lists(values, max_size=6), st.integers(1, 9), st.sampled_from([None, 1]), st.booleans())
def test_the_items_of_an_array_are_those_that_a_decoder_finds(
    wanted: list[object], most: int, indent: int | None, ascii_only: bool
) -> None:
    body = json.dumps(wanted, indent=indent, ensure_ascii=ascii_only).encode()
    assert found(body, most) == wanted
    assert found(b"\xef\xbb\xbf \n" + body + b" \r\n", most) == wanted


def test_what_is_no_array_is_one_item() -> None:
    for body in (b'{"a": [1]}', b" 7 ", b'"x"'):
        assert found(body) == [json.loads(body)]
    assert list(items(reader(b""))) == [b""]


@pytest.mark.parametrize("body", [b"[", b"[1", b"[1,", b'["a', b'["a\\', b"[[1]", b"[1] 2", b"[1]]"])
def test_an_array_without_an_end_or_with_more_behind_it_is_refused(body: bytes) -> None:
    for most in (1, 100):
        with pytest.raises(Unfit):
            list(items(reader(body, most)))


@pytest.mark.parametrize("body", [b"[1,]", b"[,]", b"[,1]"])
def test_an_item_that_is_not_there_is_given_as_such(body: bytes) -> None:
    assert b"" in list(items(reader(body)))


def test_one_item_is_bounded_and_many_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_items, "MAX_ITEM_BYTES", 1_000)
    monkeypatch.setattr(json_items, "MAX_ITEM_VALUES", 100)
    monkeypatch.setattr(json_items, "BLOCK_BYTES", 64)
    assert len(found(b"[" + b"[1,2,3]," * 10_000 + b"1]")) == 10_001
    for body in (
        b'["' + b"x" * 2_000 + b'"]',
        b'"' + b"x" * 2_000 + b'"',
        b"[" + b" " * 2_000 + b"1]",
        b"[[" + b"1," * 200 + b"1]]",
        b'{"a":[' + b"1," * 200 + b"1]}",
        b"[" * 300,
    ):
        with pytest.raises(ArchiveTooLarge):
            list(items(reader(body)))
