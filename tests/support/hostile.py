"""A WebSocket written by hand on a TCP socket, for what no library lets a client do."""

import os
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.abc

WAIT = 60.0
TEXT, BINARY, CLOSE, PING = 1, 2, 8, 9


class RawSocket:
    """Never answers a ping, and reads only when told to."""

    def __init__(self, stream: anyio.abc.ByteStream) -> None:
        self._stream = stream
        self._buffer = bytearray()

    @classmethod
    @asynccontextmanager
    async def open(cls, port: int) -> AsyncIterator["RawSocket"]:
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            lines = (
                "GET /ws HTTP/1.1",
                f"Host: 127.0.0.1:{port}",
                "Upgrade: websocket",
                "Connection: Upgrade",
                "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==",
                "Sec-WebSocket-Version: 13",
            )
            await stream.send("\r\n".join((*lines, "", "")).encode())
            raw = cls(stream)
            head = await raw._take_until(b"\r\n\r\n")
            assert b" 101 " in head
            yield raw

    async def send_frame(self, payload: bytes, opcode: int = TEXT, *, patient: bool = True) -> None:
        """One masked frame. Not `patient`: the server may hang up while it is being sent."""
        mask = os.urandom(4) if len(payload) < 1024 else b"\x00\x00\x00\x00"
        size = len(payload)
        if size < 126:
            head = struct.pack("!BB", 0x80 | opcode, 0x80 | size)
        elif size < 65536:
            head = struct.pack("!BBH", 0x80 | opcode, 0x80 | 126, size)
        else:
            head = struct.pack("!BBQ", 0x80 | opcode, 0x80 | 127, size)
        masked = payload if mask == b"\x00\x00\x00\x00" else bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))
        await self.send_bytes(head + mask + masked, patient=patient)

    async def send_bytes(self, data: bytes, *, patient: bool = True) -> None:
        try:
            with anyio.fail_after(WAIT):
                await self._stream.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            if patient:
                raise

    async def receive_frame(self) -> tuple[int, bytes]:
        head = await self._take(2)
        size = head[1] & 0x7F
        if size == 126:
            size = struct.unpack("!H", await self._take(2))[0]
        elif size == 127:
            size = struct.unpack("!Q", await self._take(8))[0]
        return head[0] & 0x0F, await self._take(size)

    async def pings(self) -> int:
        """Reads until the first ping."""
        with anyio.fail_after(WAIT):
            while True:
                opcode, _ = await self.receive_frame()
                if opcode == PING:
                    return 1

    async def closed(self) -> int | None:
        """The code of the close frame; None when the connection ended without one."""
        try:
            with anyio.fail_after(WAIT):
                while True:
                    opcode, payload = await self.receive_frame()
                    if opcode == CLOSE:
                        return int(struct.unpack("!H", payload[:2])[0]) if payload else 1005
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return None

    async def received(self, part: bytes) -> None:
        """Reads frames until one holds that."""
        with anyio.fail_after(WAIT):
            while part not in (await self.receive_frame())[1]:
                pass

    async def drain(self) -> int:
        """Reads to the end of the connection; how many bytes there were."""
        size = len(self._buffer)
        try:
            with anyio.fail_after(2 * WAIT):
                while True:
                    size += len(await self._stream.receive())
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return size

    async def wait_eof(self) -> None:
        try:
            while True:
                await self._stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return

    async def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._buffer += await self._stream.receive()
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    async def _take_until(self, end: bytes) -> bytes:
        with anyio.fail_after(WAIT):
            while end not in self._buffer:
                self._buffer += await self._stream.receive()
        taken, _, self._buffer = self._buffer.partition(end)
        return bytes(taken)
