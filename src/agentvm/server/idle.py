"""Idle — a queue and an event for sockets, most of which are idle most of the time: asyncio's own are ten times as large."""

import asyncio
from typing import Any


class Inbox:
    """An `asyncio.Queue` for one reader, without its four deques."""

    __slots__ = ("_messages", "_reader", "held")

    def __init__(self) -> None:
        self.held = 0
        """Bytes of the waiting messages, and of the one that was taken last, which its reader may still process."""
        self._messages: list[Any] = []
        self._reader: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._messages)

    def empty(self) -> bool:
        return not self._messages

    def clear(self) -> None:
        self._messages.clear()

    def recount(self) -> None:
        """Stops counting the message that was taken last."""
        self.held = sum(map(_size, self._messages))

    def put_nowait(self, message: Any) -> None:
        self._messages.append(message)
        self.held += _size(message)
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    async def get(self) -> Any:
        while not self._messages:
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        return self._messages.pop(0)


def _size(message: Any) -> int:
    return len(message.get("text") or message.get("bytes") or "") if isinstance(message, dict) else 0


class OpenGate:
    """An `asyncio.Event` that is nearly always set, and exists only while it is not."""

    __slots__ = ("_shut",)

    def __init__(self) -> None:
        self._shut: asyncio.Event | None = None

    def is_set(self) -> bool:
        return self._shut is None

    def set(self) -> None:
        if self._shut is not None:
            self._shut.set()
            self._shut = None

    def clear(self) -> None:
        if self._shut is None:
            self._shut = asyncio.Event()

    async def wait(self) -> None:
        if self._shut is not None:
            await self._shut.wait()
