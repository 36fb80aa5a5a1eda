"""Sending — the request of a model call: whether it has left this process, and when its body is released.

The caller watches it; a driver that speaks HTTP reports when the last byte of the request was written. A call that is stopped
before has used nothing, one that is stopped afterwards has been read. A driver that reports nothing sends at once.

A prompt with images is tens of megabytes, and an answer may take minutes. Libraries keep a request as long as its response is
read, so its body would stay in memory all that time. It is never sent again then: a call is retried only before its answer has
begun, and each attempt makes a request of its own. So the hooks here release the body once the provider has begun to answer.
"""

from collections.abc import AsyncIterator
from contextvars import ContextVar, Token

import httpx2

_watched: ContextVar["Sending | None"] = ContextVar("watched", default=None)


class Sending:
    """One model call, also when its library sends the request several times."""

    __slots__ = ("_reported", "_sent", "_token")

    def __init__(self) -> None:
        self._reported = self._sent = False

    @property
    def left(self) -> bool:
        return self._sent or not self._reported

    def __enter__(self) -> "Sending":
        """Requests that the calling task sends within the block belong to this call."""
        self._token: Token[Sending | None] = _watched.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _watched.reset(self._token)

    def will_report(self) -> None:
        self._reported = True

    def sent(self) -> None:
        self._sent = True


def will_report() -> None:
    """The driver of the call that is being made says when its request has left."""
    if (call := _watched.get()) is not None:
        call.will_report()


class _RequestBody(httpx2.AsyncByteStream):
    def __init__(self, content: bytes, call: Sending | None) -> None:
        self._content = content
        self._call = call

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._content
        # The transport asks for more, so the previous part is written.
        if self._call is not None:
            self._call.sent()

    def forget(self) -> None:
        self._content = b""


async def hold_body(request: httpx2.Request) -> None:
    """A request hook: holds the one body wherever the request is referred to, and reports to the call when all of it was
    written."""
    request.stream = _RequestBody(request.content, _watched.get())


async def forget_body(response: httpx2.Response) -> None:
    """A response hook, for when the head of the answer is there."""
    request = response.request
    if isinstance(request.stream, _RequestBody):
        request.stream.forget()
    # The request itself holds its content too, and nothing makes it let go.
    response.request = httpx2.Request(request.method, request.url, headers=request.headers, extensions=request.extensions)
