"""Sent — lets go of the body of a request once the provider has begun to answer it.

A prompt with pictures is tens of megabytes, and an answer may take minutes. Libraries keep a request as long as its response
is read, so its body would stay in memory all that time. Nobody sends it again then: a call is tried anew only before its answer
has begun, and each attempt makes a request of its own.
"""

from collections.abc import AsyncIterator

import httpx2


class _Body(httpx2.AsyncByteStream):
    def __init__(self, content: bytes) -> None:
        self._content = content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._content

    def forget(self) -> None:
        self._content = b""


async def hold_body(request: httpx2.Request) -> None:
    """A request hook: the one body, wherever the request is referred to."""
    request.stream = _Body(request.content)


async def forget_body(response: httpx2.Response) -> None:
    """A response hook, for when the head of the answer is there."""
    request = response.request
    if isinstance(request.stream, _Body):
        request.stream.forget()
    # The request itself holds its content too, and nothing makes it let go.
    response.request = httpx2.Request(request.method, request.url, headers=request.headers, extensions=request.extensions)
