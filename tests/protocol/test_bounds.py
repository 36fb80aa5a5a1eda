"""Texts beyond a bound are refused, whatever their strings hold; texts within it are not."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.errors.bounds import InputTooLarge
from agentvm.protocol import bounds
from agentvm.protocol.bounds import Bound, Scan, check, cut

BOUND = Bound(max_bytes=1_000, max_values=10, max_depth=4)
WIDE = Bound(max_bytes=10**9, max_values=10**9, max_depth=10**9)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='ab\\"[]{},:\n\u4e2d'),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(alphabet='a\\"[{,:', max_size=4), inner, max_size=4),
    max_leaves=30,
)


def inside(value: object) -> list[object]:
    if isinstance(value, dict):
        return [*value.values()]
    return value if isinstance(value, list) else []


def values(value: object) -> int:
    """Elements and members, at every level."""
    return len(inside(value)) + sum(map(values, inside(value)))


def depth(value: object) -> int:
    return 1 + max(map(depth, inside(value)), default=0) if isinstance(value, dict | list) else 0


@pytest.mark.parametrize(
    "text",
    [
        b"[" + b"[]," * 10 + b"[]]",
        b"[" + b"1," * 11 + b"1]",
        b"{" + b",".join(b'"k%d":1' % number for number in range(12)) + b"}",
        b"[" * 5 + b"]" * 5,
        b'{"a":' * 5 + b"1" + b"}" * 5,
        b'"' + b"x" * 1_000 + b'"',
        b'"' * 100,
    ],
)
def test_too_many_values_levels_or_bytes_are_refused(text: bytes) -> None:
    with pytest.raises(InputTooLarge, match=r"^It "):
        check(text, BOUND, "It")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[[[[]]]]",
        b"[[],[],[],[]]",
        b'"' + b"[{,:" * 200 + b'"',
        rb'["' + rb"\"[,[,[,\\\"[[" * 30 + rb'\\"]',
        rb'{"a\\":"[[[[[[[[[[[[[","b\"[[[[":1}',
    ],
)
def test_what_stands_in_strings_does_not_count(text: bytes) -> None:
    check(text, BOUND, "It")


@given(value=JSON)
def test_values_and_nesting_are_never_counted_too_low(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False).encode()
    scan = Scan(WIDE, "It")
    for piece in cut(text):
        scan.feed(piece)
    assert scan.values + 1 >= values(value)
    # Exactly what the text holds, so nobody is refused for what they only said.
    assert scan.values <= 2 * values(value) + 1
    exact = Bound(max_bytes=10**9, max_values=10**9, max_depth=depth(value))
    check(text, exact, "It")
    if depth(value):
        with pytest.raises(InputTooLarge):
            check(text, Bound(max_bytes=10**9, max_values=10**9, max_depth=depth(value) - 1), "It")


@given(value=JSON, size=st.integers(2, 20))
def test_pieces_count_what_the_whole_counts(value: object, size: int) -> None:
    text = json.dumps(value, ensure_ascii=False).encode()
    whole, cut_up = Scan(WIDE, "It"), Scan(WIDE, "It")
    whole.feed(text)
    before, bounds.PIECE_BYTES = bounds.PIECE_BYTES, size
    try:
        pieces = [*cut(text)]
    finally:
        bounds.PIECE_BYTES = before
    assert b"".join(pieces) == text
    for piece in pieces:
        cut_up.feed(piece)
    assert cut_up.values == whole.values


@given(text=st.binary(max_size=200))
def test_a_scan_of_noise_ends_and_refuses_or_passes(text: bytes) -> None:
    try:
        check(text, BOUND, "It")
    except InputTooLarge:
        pass
    assert b"".join(cut(text)) == text


def test_a_scan_says_whether_a_part_fits_another_bound() -> None:
    scan = Scan(WIDE, "It")
    scan.feed(b'{"data":[1,2,3]}')
    assert scan.fits(Bound(max_bytes=0, max_values=4, max_depth=2))
    assert not scan.fits(Bound(max_bytes=0, max_values=3, max_depth=2))
    assert not scan.fits(Bound(max_bytes=0, max_values=4, max_depth=1))
