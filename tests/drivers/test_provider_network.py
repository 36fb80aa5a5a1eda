import gzip
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.abc
import httpx2
import pytest
from anyio.streams.tls import TLSListener
from tests.support.certificates import certified

from agentvm.drivers.answer_body import AnswerBody, ChunkedBody, DecodedBody, Overdue, Silent, open_body
from agentvm.drivers.provider_network import HELD_MAX_BYTES, ProviderTransport

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
LIMITS = httpx2.Limits(max_keepalive_connections=10)


def chunks(*pieces: bytes) -> bytes:
    return b"".join(f"{len(piece):x}\r\n".encode() + piece + b"\r\n" for piece in pieces)


ENDED = HEAD + chunks(b"hello", b" you", b"")


@dataclass
class Served:
    """A server that gives each request the next answer, its pieces one after another."""

    answers: list[tuple[bytes, ...]]
    port: int = 0
    connections: int = 0

    async def serve(self, stream: anyio.abc.ByteStream) -> None:
        self.connections += 1
        async with stream:
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                while True:
                    while b"\r\n\r\n" not in await stream.receive():
                        pass
                    for piece in self.answers.pop(0):
                        await anyio.lowlevel.checkpoint()
                        await stream.send(piece)
                    if not self.answers:
                        return


@asynccontextmanager
async def serving(*answers: tuple[bytes, ...], tls: ssl.SSLContext | None = None) -> AsyncIterator[Served]:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as plain, anyio.create_task_group() as tasks:
        served = Served(list(answers), plain.extra(anyio.abc.SocketAttribute.local_port))
        listener = plain if tls is None else TLSListener(plain, tls, standard_compatible=False)
        tasks.start_soon(listener.serve, served.serve)
        yield served
        tasks.cancel_scope.cancel()


def open_client(trusted: ssl.SSLContext | None = None) -> httpx2.AsyncClient:
    trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if trusted is None else trusted
    return httpx2.AsyncClient(transport=ProviderTransport(trusted, LIMITS), timeout=60)


async def read_all(body: AnswerBody) -> bytes:
    found = b""
    with anyio.fail_after(60):
        while piece := await body.read():
            found += piece
    return found


async def ask(client: httpx2.AsyncClient, url: str, kind: type[AnswerBody] = ChunkedBody) -> bytes:
    async with client.stream("GET", url) as response:
        body = open_body(response, 60.0, anyio.current_time() + 60.0)
        assert isinstance(body, kind)
        try:
            return await read_all(body)
        finally:
            body.close()


@pytest.mark.parametrize(
    "pieces",
    [
        (ENDED,),
        (HEAD, ENDED[len(HEAD) :]),
        tuple(ENDED[at : at + 1] for at in range(len(ENDED))),
        (b"HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n", ENDED),
        (b"HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n" + ENDED,),
    ],
)
async def test_a_body_is_read_past_the_library_and_its_connection_used_again(pieces: tuple[bytes, ...]) -> None:
    async with serving(pieces, pieces, (ENDED,)) as served, open_client() as client:
        for _ in range(3):
            assert await ask(client, f"http://127.0.0.1:{served.port}") == b"hello you"
        assert served.connections == 1


async def test_a_host_with_several_addresses_is_reached_at_the_one_that_answers() -> None:
    async with serving((ENDED,)) as served, open_client() as client:
        assert await ask(client, f"http://localhost:{served.port}") == b"hello you"


async def test_a_body_that_is_compressed_or_not_in_chunks_is_read_by_the_library() -> None:
    packed = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-encoding: gzip\r\n\r\n"
    whole = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
    async with serving((packed + chunks(gzip.compress(b"hello"), b""),), (whole,)) as served, open_client() as client:
        for _ in range(2):
            assert await ask(client, f"http://127.0.0.1:{served.port}", DecodedBody) == b"hello"


async def test_a_body_that_the_library_has_begun_is_not_taken_from_it() -> None:
    async with serving((ENDED,)) as served, open_client() as client:
        async with client.stream("GET", f"http://127.0.0.1:{served.port}") as response:
            assert await anext(response.stream.__aiter__()) == b"hello"  # type: ignore[union-attr]  # asynchronous, here
            assert isinstance(open_body(response, 60.0, anyio.current_time() + 60.0), DecodedBody)


async def test_a_connection_with_more_than_was_asked_for_is_not_used_again() -> None:
    async with serving((ENDED + ENDED,), (ENDED,)) as served, open_client() as client:
        for _ in range(2):
            assert await ask(client, f"http://127.0.0.1:{served.port}") == b"hello you"
        assert served.connections == 2


@pytest.mark.parametrize("broken", [HEAD, HEAD + b"5\r\nhel", HEAD + chunks(b"hello"), HEAD + b"nonsense\r\n"])
async def test_a_body_that_does_not_end_as_it_should_is_an_error(broken: bytes) -> None:
    async with serving((broken,)) as served, open_client() as client:
        with pytest.raises(httpx2.RemoteProtocolError):
            await ask(client, f"http://127.0.0.1:{served.port}")


async def test_a_large_body_arrives_whole_although_little_of_it_is_held() -> None:
    large = bytes(range(256)) * (8 * HELD_MAX_BYTES // 256)
    async with serving((HEAD, chunks(large, b""))) as served, open_client() as client:
        assert await ask(client, f"http://127.0.0.1:{served.port}") == large


@pytest.mark.parametrize(("quiet", "seconds", "expected"), [(0.05, 60.0, Silent), (60.0, 0.05, Overdue)])
async def test_silence_and_the_deadline_end_the_wait(quiet: float, seconds: float, expected: type[Exception]) -> None:
    async with serving((HEAD + chunks(b"a"),), (ENDED,)) as served, open_client() as client:
        async with client.stream("GET", f"http://127.0.0.1:{served.port}") as response:
            body = open_body(response, quiet, anyio.current_time() + seconds)
            assert await body.read() == b"a"
            body.begun = True
            with pytest.raises(expected), anyio.fail_after(60):
                await body.read()
            body.close()


async def test_a_request_that_is_given_up_closes_its_connection() -> None:
    async with serving((HEAD + chunks(b"a"),), (ENDED,)) as served, open_client() as client:
        with anyio.move_on_after(60):
            async with client.stream("GET", f"http://127.0.0.1:{served.port}") as response:
                body = open_body(response, 60.0, anyio.current_time() + 60.0)
                await body.read()
                with anyio.CancelScope() as scope:
                    scope.cancel()
                    await body.read()
                assert scope.cancelled_caught
                body.close()
        assert await ask(client, f"http://127.0.0.1:{served.port}") == b"hello you"
        assert served.connections == 2


async def test_nobody_there_is_a_connect_error() -> None:
    async with serving() as gone:
        pass
    async with open_client() as client:
        with pytest.raises(httpx2.ConnectError):
            await ask(client, f"http://127.0.0.1:{gone.port}")


async def test_a_connection_may_be_encrypted_for_a_name_that_is_trusted(tmp_path: Path) -> None:
    server, trusted = certified("localhost", tmp_path)
    async with serving((HEAD, ENDED[len(HEAD) :]), (ENDED,), tls=server) as served:
        async with open_client(trusted) as client:
            for _ in range(2):
                assert await ask(client, f"https://localhost:{served.port}") == b"hello you"
        assert served.connections == 1
        async with open_client(ssl.create_default_context()) as client:
            with pytest.raises(httpx2.ConnectError):
                await ask(client, f"https://localhost:{served.port}")
