"""Link — the server's end of a socket to the launcher or to a jail: whole frames, without blocking the event loop."""

import socket
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

import anyio

from agentvm.tiers import frames
from agentvm.tiers.frames import FRAME_MAX_BYTES, HEADER_BYTES, AnyMessage, Message

_RECEIVE_BYTES = 256 * 1024


class FrameLink:
    """Frames over one socket. One task sends at a time, and one receives."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._buffer = bytearray()
        self._descriptors: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            anyio.notify_closing(self._socket)
            self._socket.close()
        for descriptor in self._descriptors:
            socket.close(descriptor)
        self._descriptors.clear()

    def fileno(self) -> int:
        return self._socket.fileno()

    async def send(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        """Raises `OSError` when the peer is gone."""
        data = memoryview(frames.encode(message))
        while data:
            try:
                if descriptors:
                    data = data[socket.send_fds(self._socket, [data], list(descriptors)) :]
                    descriptors = ()
                else:
                    data = data[self._socket.send(data) :]
            except BlockingIOError:
                await anyio.wait_writable(self._socket)

    async def receive(self, limit: int = FRAME_MAX_BYTES) -> tuple[AnyMessage, int | None]:
        """The next frame, and a descriptor that came before its end; `EOFError` when the peer is gone."""
        while (message := self._whole(limit)) is None:
            try:
                data, descriptors, _, _ = socket.recv_fds(self._socket, _RECEIVE_BYTES, 4, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                await anyio.wait_readable(self._socket)
                continue
            except ConnectionResetError:
                data = b""
            else:
                self._descriptors += descriptors
            if not data:
                raise EOFError
            self._buffer += data
        return message, self._descriptors.pop(0) if self._descriptors else None

    def receive_ready(self, limit: int) -> Iterator[AnyMessage]:
        """The frames that have come, from a peer that is not trusted: its descriptors are not taken. `EOFError` at its end."""
        yield from self._all_whole(limit)
        try:
            data = self._socket.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b""
        self._buffer += data
        yield from self._all_whole(limit)
        if not data:
            raise EOFError

    def receive_raw(self) -> bytes:
        """The bytes that have come, which are no frames; `EOFError` at their end."""
        data, self._buffer = bytes(self._buffer), bytearray()
        try:
            data += (piece := self._socket.recv(_RECEIVE_BYTES))
        except BlockingIOError:
            return data
        except ConnectionResetError:
            piece = b""
        if not piece and not data:
            raise EOFError
        return data

    def _all_whole(self, limit: int) -> Iterator[AnyMessage]:
        while (message := self._whole(limit)) is not None:
            yield message

    def _whole(self, limit: int) -> AnyMessage | None:
        if len(self._buffer) < HEADER_BYTES:
            return None
        end = HEADER_BYTES + frames.length_of(bytes(self._buffer[:HEADER_BYTES]), limit)
        if len(self._buffer) < end:
            return None
        message = frames.decode(self._buffer[HEADER_BYTES:end])
        del self._buffer[:end]
        return message
