import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.drivers.event_stream import EventReader

STREAM = "event: a\ndata: one\n\n: ping\n\ndata:two\ndata:  lines\nid: 7\n\nretry: 1\n\ndata\ndata:\n\ndata: 中文\u2028x\n\n"
EVENTS = ["one", "two\n lines", "中文\u2028x"]


def read(*pieces: bytes, max_bytes: int = 1_000) -> list[str]:
    reader = EventReader(max_bytes)
    return [text for piece in pieces for text in reader.feed(piece)] + reader.end()


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_every_kind_of_line_end_is_read(line_end: str) -> None:
    assert read(STREAM.replace("\n", line_end).encode()) == EVENTS


@given(st.sampled_from(["\n", "\r\n", "\r"]), st.lists(st.integers(1, 7), max_size=60))
def test_pieces_may_end_anywhere(line_end: str, sizes: list[int]) -> None:
    rest, pieces = STREAM.replace("\n", line_end).encode(), list[bytes]()
    for size in sizes:
        pieces.append(rest[:size])
        rest = rest[size:]
    assert read(*pieces, rest) == EVENTS


def test_an_event_that_the_stream_breaks_off_is_none() -> None:
    assert read(b"data: a\n\ndata: b\n") == ["a"]


def test_bytes_that_are_not_unicode_are_replaced() -> None:
    assert read(b"data: a\xff\n\n") == ["a\ufffd"]


@pytest.mark.parametrize("pieces", [(b"data: 12345678901\n\n",), (b"data: 1",) * 3, (b"data: 1\n",) * 3, (b"x" * 21,)])
def test_an_event_that_is_too_large_is_refused(pieces: tuple[bytes, ...]) -> None:
    with pytest.raises(httpx2.SSEError, match="16 bytes"):
        read(*pieces, max_bytes=16)


def test_many_small_events_are_not_too_large_together() -> None:
    assert read(b"data: 1\n\n" * 99, b"data: 1\n\n" * 99, max_bytes=16) == ["1"] * 198
