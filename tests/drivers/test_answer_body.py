import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.drivers.answer_body import ChunkReader

BODY = b"5\r\nhello\r\n1;why=not\r\n \r\n6 \r\nw\r\nrld\r\n0\r\nx-sum: 1\r\n\r\n"


@given(st.lists(st.integers(1, 5), max_size=50))
def test_chunks_may_arrive_in_pieces(sizes: list[int]) -> None:
    reader, rest, found = ChunkReader(), BODY, b""
    for size in sizes:
        found += reader.feed(rest[:size])
        assert reader.is_over() == (size >= len(rest) > 0 or not rest)
        rest = rest[size:]
        if not rest:
            break
    assert found + reader.feed(rest) == b"hello w\r\nrld"
    assert reader.is_over()
    assert reader.rest == b""


def test_what_follows_the_body_is_kept() -> None:
    reader = ChunkReader()
    assert reader.feed(b"1\r\na\r\n0\r\n\r\nHTTP/1.1") == b"a"
    assert (reader.is_over(), reader.rest) == (True, b"HTTP/1.1")


@pytest.mark.parametrize(
    "body",
    [b"\r\n", b"x\r\n", b"-1\r\n", b"0x1\r\n", b"1_0\r\n", b"f" * 16 + b"\r\n", b"1\r\nab\r\n", b"1\r\nabc", b"1" * 16_385],
)
def test_anything_else_is_refused(body: bytes) -> None:
    with pytest.raises(httpx2.RemoteProtocolError):
        ChunkReader().feed(body)
