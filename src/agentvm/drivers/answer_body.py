"""Answer body — the bytes of a streamed answer as they come, as long as they keep coming and until the deadline of the call.

A body in chunks, the usual form of a stream, is taken from its connection (`agentvm.drivers.provider_network`), and one timer
for the whole call watches the time. Any other body is read through the HTTP library, under a cancel scope for each piece.
"""

import asyncio
import math
import re
from collections.abc import AsyncIterator
from typing import Protocol

import anyio
import httpx2

from agentvm.drivers.provider_network import ProviderStream

_SIZE = re.compile(rb"[0-9A-Fa-f]{1,15}")
_LINE_MAX_BYTES = 16_384


class Silent(Exception):
    """The provider was silent for too long."""


class Overdue(Exception):
    """The call as a whole took too long."""


class AnswerBody(Protocol):
    """The body of one answer. `begun` says that from now on silence counts."""

    begun: bool

    async def read(self) -> bytes:
        """Returns the next bytes; none at the end. Raises `Silent`, `Overdue` or an HTTPError."""

    def close(self) -> None:
        """Ends the watch: no more is read."""


def open_body(response: httpx2.Response, quiet: float, deadline: float) -> AnswerBody:
    """The body of a response whose head was read, and nothing else. `quiet` is how many seconds it may be silent."""
    stream = response.extensions.get("network_stream")
    headers = response.headers
    is_plain = headers.get("content-encoding", "identity").lower() == "identity"
    is_chunked = headers.get("transfer-encoding", "").lower() == "chunked"
    if isinstance(stream, ProviderStream) and stream.at_body and is_plain and is_chunked:
        return ChunkedBody(response, stream, quiet, deadline)
    return DecodedBody(response, quiet, deadline)


class DecodedBody:
    """A body that the HTTP library reads, and decompresses if need be."""

    def __init__(self, response: httpx2.Response, quiet: float, deadline: float) -> None:
        self._quiet, self._deadline = quiet, deadline
        self._pieces: AsyncIterator[bytes] = aiter(response.aiter_bytes())
        self.begun = False

    async def read(self) -> bytes:
        silent_at = anyio.current_time() + self._quiet if self.begun else math.inf
        piece = b""
        with anyio.CancelScope(deadline=min(silent_at, self._deadline)) as waiting:
            piece = await anext(self._pieces, b"")
        if waiting.cancelled_caught:
            raise Silent if silent_at < self._deadline else Overdue
        return piece

    def close(self) -> None:
        pass


class ChunkedBody:
    """A body in chunks, taken from its connection."""

    def __init__(self, response: httpx2.Response, stream: ProviderStream, quiet: float, deadline: float) -> None:
        self._response, self._stream = response, stream
        self._chunks = ChunkReader()
        self._loop = asyncio.get_running_loop()
        self._quiet, self._deadline = quiet, deadline
        self._due = math.inf
        """When the wait in progress has taken too long; there is none while it is infinite."""
        self._timer: asyncio.TimerHandle | None = None
        self.begun = False

    async def read(self) -> bytes:
        chunks = self._chunks
        while not chunks.is_over():
            self._watch()
            try:
                piece = await self._stream.take()
            except OSError as error:
                raise httpx2.ReadError(str(error)) from error
            finally:
                self._due = math.inf
            if not piece:
                raise httpx2.RemoteProtocolError("the connection ended within the body")
            body = chunks.feed(piece)
            if chunks.is_over():
                await self._release()
            if body:
                return body
        return b""

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    async def _release(self) -> None:
        """Releases the connection for reuse, unless unexpected bytes follow."""
        if not (self._chunks.rest or self._stream.get_extra_info("is_readable")):
            self._stream.give_back(b"0\r\n\r\n")
            stream = self._response.stream
            assert isinstance(stream, httpx2.AsyncByteStream)
            async for _ in stream:
                pass

    def _watch(self) -> None:
        now = self._loop.time()
        if now >= self._deadline:
            raise Overdue
        self._due = min(now + self._quiet, self._deadline) if self.begun else self._deadline
        # A timer that is too early looks again; only one that is too late must be replaced.
        if self._timer is None or self._timer.when() > self._due:
            self._set_timer()

    def _set_timer(self) -> None:
        self.close()
        self._timer = self._loop.call_at(self._due, self._check_timer)

    def _check_timer(self) -> None:
        self._timer = None
        if self._due > self._loop.time():
            if self._due < math.inf:
                self._set_timer()
            return
        self._stream.cut(Overdue() if self._due >= self._deadline else Silent())


class ChunkReader:
    """Takes a body out of its chunks."""

    __slots__ = ("_ended", "_in_trailers", "_left", "rest")

    def __init__(self) -> None:
        self.rest = b""
        """Bytes that could not be read yet; at the end those that follow the body."""
        self._left = 0
        """Bytes of the chunk still to come, with the line break after it."""
        self._in_trailers = self._ended = False

    def is_over(self) -> bool:
        """Whether the body has ended."""
        return self._ended

    def feed(self, piece: bytes) -> bytes:
        """Returns the part of the body in the piece. Raises `RemoteProtocolError` if the bytes are not chunks."""
        piece, self.rest = self.rest + piece if self.rest else piece, b""
        contents: list[bytes] = []
        at, size = 0, len(piece)
        while at < size and not self._ended:
            if self._left > 2:
                contents.append(piece[at : at + self._left - 2])
                at += len(contents[-1])
                self._left -= len(contents[-1])
                continue
            end = piece.find(b"\r\n", at)
            if end < 0:
                if size - at > (1 if self._left else _LINE_MAX_BYTES):
                    raise httpx2.RemoteProtocolError("a line of the body's chunks does not end")
                break
            self._read_line(piece[at:end])
            at = end + 2
        self.rest = piece[at:]
        return contents[0] if len(contents) == 1 else b"".join(contents)

    def _read_line(self, line: bytes) -> None:
        if self._left:
            # The line break after a chunk.
            if line:
                raise httpx2.RemoteProtocolError("a chunk is longer than it says")
            self._left = 0
        elif self._in_trailers:
            self._ended = not line
        else:
            number = line.partition(b";")[0].strip(b" \t")
            if not _SIZE.fullmatch(number):
                raise httpx2.RemoteProtocolError("a chunk does not say how long it is")
            count = int(number, 16)
            self._in_trailers = not count
            self._left = count + 2 if count else 0
