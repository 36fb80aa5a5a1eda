from collections.abc import Callable
from typing import Any

import pytest
from websockets.protocol import OPEN
from websockets.server import ServerProtocol

from agentvm.server.streams import LARGE_BYTES, JoiningTransport, UncopiedReader, join_texts


class FakeLoop:
    """Runs what was scheduled when told to."""

    def __init__(self) -> None:
        self._soon: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)

    def tick(self) -> None:
        soon, self._soon = self._soon, []
        for callback in soon:
            callback()


class FakeTransport:
    """Writes down what reaches the kernel."""

    def __init__(self) -> None:
        self.log: list[bytes | str] = []

    def write(self, data: bytes) -> None:
        self.log.append(data)

    def close(self) -> None:
        self.log.append("close")

    def is_closing(self) -> bool:
        return "close" in self.log


def joined() -> tuple[JoiningTransport, FakeTransport, FakeLoop]:
    transport, loop = FakeTransport(), FakeLoop()
    untyped: Any = (transport, loop)
    return JoiningTransport(*untyped), transport, loop


def test_the_frames_of_one_tick_leave_in_one_write_and_in_order() -> None:
    joining, transport, loop = joined()
    for frame in (b"a", b"b", b"c"):
        joining.write(frame)
    assert transport.log == []
    loop.tick()
    joining.write(b"d")
    loop.tick()
    loop.tick()
    assert transport.log == [b"abc", b"d"]


def test_what_is_joined_already_leaves_at_once_behind_what_waits() -> None:
    joining, transport, loop = joined()
    joining.write(b"a")
    joining.write_now(b"b")
    joining.write_now(b"c")
    assert transport.log == [b"ab", b"c"]
    loop.tick()
    assert transport.log == [b"ab", b"c"]


def test_what_was_written_before_the_close_leaves_before_it() -> None:
    joining, transport, loop = joined()
    joining.write(b"last words")
    joining.close()
    loop.tick()
    assert transport.log == [b"last words", "close"]


def test_everything_else_is_the_transports_own() -> None:
    joining, transport, _ = joined()
    assert not joining.is_closing()
    transport.close()
    assert joining.is_closing()


def test_a_large_message_is_given_away_and_what_follows_it_stays() -> None:
    reader = UncopiedReader()
    size = LARGE_BYTES + 1
    reader.feed_data(b"a" * size + b"bc")
    reading = reader.read_exact(size)
    with pytest.raises(StopIteration) as read:
        next(reading)
    assert read.value.value == b"a" * size
    with pytest.raises(StopIteration) as read:
        next(reader.read_exact(2))
    assert read.value.value == b"bc"
    waiting = reader.read_exact(size)
    next(waiting)
    reader.feed_eof()
    with pytest.raises(EOFError):
        next(waiting)


def test_texts_are_joined_as_the_parsers_own_frames() -> None:
    texts = ["", "a", "x" * 125, "x" * 126, "\u4e2d" * 60, "x" * 65_535, "x" * 65_536, "\u4e2d" * 30_000]
    parser = ServerProtocol()
    parser.state = OPEN
    for text in texts:
        parser.send_text(text.encode())
    assert join_texts(texts) == b"".join(parser.data_to_send())
