"""Sent — releases the body of a request once the provider has begun to answer it.

A prompt with images is tens of megabytes, and an answer may take minutes. Libraries keep a request as long as its response is
read, so its body would stay in memory all that time. It is never sent again then: a call is retried only before its answer has
begun, and each attempt makes a request of its own.
"""

from collections.abc import AsyncIterator

import httpx2

from agentvm.drivers.sending import Sending, watched


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
    request.stream = _RequestBody(request.content, watched())


async def forget_body(response: httpx2.Response) -> None:
    """A response hook, for when the head of the answer is there."""
    request = response.request
    if isinstance(request.stream, _RequestBody):
        request.stream.forget()
    # The request itself holds its content too, and nothing makes it let go.
    response.request = httpx2.Request(request.method, request.url, headers=request.headers, extensions=request.extensions)
