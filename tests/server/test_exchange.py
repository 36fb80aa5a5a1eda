from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from agentvm.server.exchange import HttpError, HttpRequest, HttpResponse


def requested(*chunks: bytes, headers: tuple[tuple[bytes, bytes], ...] = (), max_body_bytes: int = 10) -> HttpRequest:
    waiting = list(chunks)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": waiting.pop(0), "more_body": bool(waiting)}

    request = HttpRequest({"method": "POST", "headers": headers}, receive)
    request.max_body_bytes = max_body_bytes
    return request


async def body(request: HttpRequest) -> bytes:
    return b"".join([chunk async for chunk in request.stream()])


async def test_a_body_is_read_as_it_comes() -> None:
    assert await body(requested(b"ab", b"", b"c")) == b"abc"


@pytest.mark.parametrize(
    "request_",
    [requested(b"x" * 6, b"x" * 6), requested(b"", headers=((b"Content-Length", b"11"),))],
    ids=["sent", "announced"],
)
async def test_a_body_beyond_its_bound_is_refused(request_: HttpRequest) -> None:
    with pytest.raises(HttpError) as error:
        await body(request_)
    assert error.value.status == 413


def test_repeated_headers_are_joined() -> None:
    headers = ((b"Accept", b"a/b"), (b"accept", b"c/d"))
    assert requested(b"", headers=headers).headers["accept"] == "a/b, c/d"


async def sent(response: HttpResponse, *, gone: bool = False) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if not gone:
            await anyio.sleep_forever()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        messages.append(message)

    with anyio.fail_after(60):
        await response.send(receive, send, {"X-Request-Id": "r"})
    return messages


async def test_a_response_tells_its_type_and_length() -> None:
    start, end = await sent(HttpResponse(content=b"hi", media_type="text/plain", headers={"ETag": "x"}))
    assert dict(start["headers"]) == {
        b"etag": b"x",
        b"x-request-id": b"r",
        b"content-type": b"text/plain; charset=utf-8",
        b"content-length": b"2",
    }
    assert end["body"] == b"hi"


async def test_no_content_has_neither() -> None:
    start, _ = await sent(HttpResponse(status=204))
    assert dict(start["headers"]) == {b"x-request-id": b"r"}


async def test_a_stream_ends_with_its_source_or_its_reader() -> None:
    async def numbers() -> AsyncIterator[bytes]:
        yield b"1"
        yield b"2"

    async def endless() -> AsyncIterator[bytes]:
        yield b"1"
        await anyio.sleep_forever()

    assert [message.get("body") for message in await sent(HttpResponse(content=numbers()))] == [None, b"1", b"2", b""]
    left = await sent(HttpResponse(content=endless()), gone=True)
    assert left[-1].get("more_body") is not False
