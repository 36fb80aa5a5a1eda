"""Streams — how a socket's bytes are written together and read without a copy.

An answer arrives as bursts of small frames; uvicorn writes each to the kernel by itself. Joined, a frame costs about
a quarter (measured in `bench/turns.py`). Frames stay whole and in order.
"""

import asyncio
from collections.abc import Generator, Iterable
from typing import Any

from websockets.streams import StreamReader

LARGE_BYTES = 65_536


_TEXT_CODE = 0x81
_SHORT_MAX_BYTES = 125
_MEDIUM_MAX_BYTES = 65_535


def join_texts(texts: Iterable[str]) -> bytes:
    """Returns the texts as frames of RFC 6455, each complete and unmasked."""
    parts: list[bytes] = []
    for text in texts:
        data = text.encode()
        size = len(data)
        if size <= _SHORT_MAX_BYTES:
            parts.append(bytes((_TEXT_CODE, size)))
        elif size <= _MEDIUM_MAX_BYTES:
            parts.append(bytes((_TEXT_CODE, 126, size >> 8, size & 0xFF)))
        else:
            parts.append(bytes((_TEXT_CODE, 127)) + size.to_bytes(8))
        parts.append(data)
    return b"".join(parts)


class JoiningTransport:
    """A transport whose writes leave together at the end of the loop's tick."""

    __slots__ = ("_loop", "_pending", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._pending: list[bytes] = []

    def write(self, data: bytes) -> None:
        if not self._pending:
            self._loop.call_soon(self._flush)
        self._pending.append(data)

    def write_now(self, data: bytes) -> None:
        """Writes joined frames, after the bytes that wait for the end of the tick."""
        self._pending.append(data)
        self._flush()

    def flush(self) -> None:
        """Writes the bytes that wait for the end of the tick."""
        self._flush()

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        self._flush()
        self._transport.abort()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _flush(self) -> None:
        if self._pending:
            joined = self._pending[0] if len(self._pending) == 1 else b"".join(self._pending)
            self._pending.clear()
            if not self._transport.is_closing():
                # For a peer that has gone meanwhile this would raise in a callback.
                self._transport.write(joined)


class UncopiedReader(StreamReader):
    """The parser's reader, which hands over a large message instead of copying it, which would block the event loop."""

    def read_exact(self, n: int) -> Generator[None, None, bytearray]:
        if n <= LARGE_BYTES:
            return (yield from super().read_exact(n))
        while len(self.buffer) < n:
            if self.eof:
                raise EOFError(f"stream ends after {len(self.buffer)} bytes, expected {n} bytes")
            yield
        head, self.buffer = self.buffer, self.buffer[n:]
        del head[n:]
        return head
