import gzip
import zlib
from collections.abc import AsyncIterator
from ipaddress import ip_address
from pathlib import Path

import anyio
import httpx2
import pytest
from tests.support.certificates import certified
from tests.support.web import Asked, Replied, web

from agentvm.errors import ToolFailed
from agentvm.errors.tool import EgressRefused
from agentvm.model.address import IpAddress
from agentvm.model.public_address import AddressRules
from agentvm.tools.safe_http import Fetched, Outgoing, SafeHttp, parse_url

LOOPBACK = AddressRules.parse(["127.0.0.0/8"])

FORBIDDEN = (
    "http://127.0.0.1:{port}/", "http://127.1:{port}/", "http://2130706433:{port}/", "http://0x7f000001:{port}/",
    "http://0177.0.0.1:{port}/", "http://017700000001:{port}/", "http://0x7f.0.0.1:{port}/", "http://0:{port}/",
    "http://0.0.0.0:{port}/", "http://localhost:{port}/", "http://LOCALHOST.:{port}/", "http://[::1]:{port}/", "http://[::]:{port}/",
    "http://[::ffff:127.0.0.1]:{port}/", "http://[::ffff:7f00:1]:{port}/", "http://[0:0:0:0:0:ffff:7f00:1]:{port}/",
    "http://[64:ff9b::7f00:1]:{port}/", "http://[2002:7f00:1::]:{port}/", "http://[2001:0:7f00:1::f7f7:f7f7]:{port}/",
    "http://[fe80::1%25lo]:{port}/", "http://[fe80::1%lo]:{port}/", "http://169.254.169.254/latest/meta-data/",
    "http://[fd00:ec2::254]/latest/meta-data/", "http://100.100.100.200/", "http://168.63.129.16/", "http://127.0.0.1.:{port}/",
    "http://user@127.0.0.1:{port}/", "http://example.org@127.0.0.1:{port}/", "http://example.org\\@127.0.0.1:{port}/",
    "http://127.0.0.1:{port}\\@example.org/", "http://①②⑦.⓪.⓪.①:{port}/", "http://１２７.0.0.1:{port}/", "file:///etc/passwd",
    "ftp://127.0.0.1/", "gopher://127.0.0.1:{port}/", "unix:///run/docker.sock", "http://", "//127.0.0.1/", "http:127.0.0.1",
    "http://127.0.0.1:{port}/ x", "http://ex\nample.org/", "http://a..b/", "http://-a.example/",
)  # fmt: skip


async def get(http: SafeHttp, url: str, **options: float) -> Fetched:
    return await http.send(Outgoing(method="GET", url=parse_url(url)), **options)  # type: ignore[arg-type]


def ok(asked: Asked) -> Replied:
    return Replied(body=b"reached")


def names(**addresses: str) -> "FakeNames":
    return FakeNames({name.replace("_", "."): [address.split(",")] for name, address in addresses.items()})


class FakeNames:
    """A name server: each further question of a name gets its next answer."""

    def __init__(self, answers: dict[str, list[list[str]]]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def __call__(self, name: str, port: int) -> tuple[IpAddress, ...]:
        self.asked.append(name)
        if name not in self.answers:
            raise OSError("no such name")
        answers = self.answers[name]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        return tuple(map(ip_address, answer))


@pytest.mark.parametrize("url", FORBIDDEN)
async def test_no_form_of_an_inner_address_is_reached(url: str) -> None:
    with anyio.fail_after(60):
        async with web(ok) as server, SafeHttp() as http:
            with pytest.raises((EgressRefused, ToolFailed)):
                await get(http, url.replace("{port}", str(server.port)))
            assert server.connections == 0


@pytest.mark.parametrize("url", [url for url in FORBIDDEN if url.startswith("http://") and "{port}/" in url])
async def test_no_form_of_an_inner_address_is_reached_by_a_library_that_uses_the_client(url: str) -> None:
    with anyio.fail_after(60):
        async with web(ok) as server, SafeHttp() as http, http.client(redirects=0) as client:
            with pytest.raises((EgressRefused, ToolFailed, httpx2.InvalidURL)):
                await client.get(url.replace("{port}", str(server.port)))
            assert server.connections == 0


@pytest.mark.parametrize(
    "addresses", ["127.0.0.1", "8.8.8.8,127.0.0.1", "::ffff:10.0.0.1", "2606:4700::1,fe80::1", "64:ff9b::a00:1"]
)
async def test_a_name_is_refused_for_a_single_address_that_is_not_public(addresses: str) -> None:
    resolver = names(inner_example=addresses)
    async with SafeHttp(resolve=resolver) as http:
        with pytest.raises(EgressRefused) as refused:
            await get(http, "https://inner.example/")
    assert "inner.example" in str(refused.value)
    assert addresses.split(",")[0] not in str(refused.value)


async def test_a_connection_goes_to_the_address_that_was_checked_with_the_name_in_the_request() -> None:
    with anyio.fail_after(60):
        async with web(ok) as server, SafeHttp(LOOPBACK, resolve=names(api_example="127.0.0.1")) as http:
            fetched = await get(http, server.url(host="api.example"))
    assert fetched.body == b"reached"
    assert server.asked[0].headers["host"] == f"api.example:{server.port}"


async def test_a_second_address_is_tried_when_the_first_does_not_answer() -> None:
    with anyio.fail_after(60):
        async with web(ok) as server, SafeHttp(LOOPBACK, resolve=names(api_example="127.0.0.9,127.0.0.1")) as http:
            assert (await get(http, server.url(host="api.example"))).status == 200


async def test_the_name_server_of_this_machine_is_asked() -> None:
    async with SafeHttp() as http:
        with pytest.raises(ToolFailed, match=r"nowhere\.invalid"):
            await get(http, "http://nowhere.invalid/")


@pytest.mark.parametrize(
    "target",
    ["http://169.254.169.254/", "http://[::ffff:7f00:1]:{port}/", "http://[::1]/", "file:///etc/passwd", "http://2130706433/"],
)
async def test_a_redirect_passes_the_same_check(target: str) -> None:
    with anyio.fail_after(60):
        async with web(ok) as inner:
            location = target.replace("{port}", str(inner.port))
            async with web(lambda asked: Replied(302, headers={"location": location})) as server:
                rules = AddressRules.parse([f"127.0.0.1:{server.port}"])
                async with SafeHttp(rules) as http:
                    with pytest.raises(EgressRefused):
                        await get(http, server.url())
            assert (len(server.asked), inner.connections) == (1, 0)


async def test_credentials_never_follow_a_redirect_not_even_to_the_same_host() -> None:
    def reply(asked: Asked) -> Replied:
        return Replied(307, headers={"location": "/final"}) if asked.target == "/" else ok(asked)

    request_headers = (("Authorization", "Bearer t"), ("X-Api-Key", "k"), ("Cookie", "c=1"))
    with anyio.fail_after(60):
        async with web(reply) as server, SafeHttp(LOOPBACK) as http:
            url = parse_url(server.url())
            fetched = await http.send(
                Outgoing(method="GET", url=url, headers=(("X-Plain", "1"),), secret_headers=request_headers)
            )
    first, second = server.asked
    assert {"authorization", "x-api-key", "cookie", "x-plain"} <= set(first.headers)
    assert not {"authorization", "x-api-key", "cookie"} & set(second.headers)
    assert second.headers["x-plain"] == "1"
    assert fetched.url.endswith("/final")


async def test_redirects_are_bounded() -> None:
    with anyio.fail_after(60):
        async with web(lambda asked: Replied(302, headers={"location": "/again"})) as server, SafeHttp(LOOPBACK) as http:
            with pytest.raises(ToolFailed, match="redirects more than 5 times"):
                await get(http, server.url())
    assert len(server.asked) == 6


async def test_what_was_sent_is_not_sent_to_another_host_by_a_redirect() -> None:
    with anyio.fail_after(60):
        async with (
            web(ok) as other,
            web(lambda asked: Replied(int(asked.target[1:]), headers={"location": other.url()})) as server,
        ):
            async with SafeHttp(LOOPBACK) as http:
                for status in (307, 308):
                    with pytest.raises(EgressRefused):
                        await http.send(Outgoing(method="POST", url=parse_url(server.url(f"/{status}")), content=b"private"))
                assert other.asked == []
                await http.send(Outgoing(method="POST", url=parse_url(server.url("/303")), content=b"private"))
    assert [(asked.method, asked.body) for asked in other.asked] == [("GET", b"")]
    assert "content-length" not in other.asked[0].headers


async def test_a_redirect_from_https_to_http_is_refused_and_a_certificate_is_for_the_name(tmp_path: Path) -> None:
    server_tls, client_tls = certified("api.example", tmp_path)
    resolver = names(api_example="127.0.0.1", other_example="127.0.0.1")

    def reply(asked: Asked) -> Replied:
        return ok(asked) if asked.target == "/" else Replied(302, headers={"location": "http://api.example/"})

    with anyio.fail_after(60):
        async with web(reply, tls=server_tls) as server, SafeHttp(LOOPBACK, resolve=resolver, ssl_context=client_tls) as http:
            assert (await get(http, server.url(host="api.example"))).body == b"reached"
            with pytest.raises(ToolFailed, match="certificate"):
                await get(http, server.url(host="other.example"))
            with pytest.raises(EgressRefused, match="from https to http"):
                await get(http, server.url("/down", host="api.example"))


async def endless() -> AsyncIterator[bytes]:
    while True:
        yield b"x" * 65536


async def test_a_response_is_read_up_to_a_number_of_bytes() -> None:
    with anyio.fail_after(60):
        async with web(lambda asked: Replied(pieces=endless())) as server, SafeHttp(LOOPBACK) as http:
            with pytest.raises(ToolFailed, match="more than 1000000 bytes"):
                await get(http, server.url(), max_bytes=1_000_000)
            await server.closed.wait()


async def bomb() -> AsyncIterator[bytes]:
    """Ten gigabytes in ten megabytes."""
    squeeze = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    zeros = bytes(1024 * 1024)
    for _ in range(10 * 1024):
        yield squeeze.compress(zeros)


async def chaff() -> AsyncIterator[bytes]:
    """Compressed bytes that end at once, and then go on for ever."""
    yield gzip.compress(b"short")
    while True:
        yield b"x" * 65536


@pytest.mark.parametrize("pieces", [bomb, chaff])
async def test_a_compressed_response_is_counted_before_and_after(pieces: object) -> None:
    assert callable(pieces)
    with anyio.fail_after(60):
        async with web(lambda asked: Replied(headers={"content-encoding": "gzip"}, pieces=pieces())) as server:
            async with SafeHttp(LOOPBACK) as http:
                with pytest.raises(ToolFailed, match="more than 4000000 bytes"):
                    await get(http, server.url(), max_bytes=4_000_000)


async def test_gzip_is_unpacked_and_any_other_encoding_refused() -> None:
    bodies = {"gzip": gzip.compress(b"reached"), "br": b"?", "gzip, gzip": gzip.compress(gzip.compress(b"reached"))}

    def reply(asked: Asked) -> Replied:
        encoding = asked.target[1:].replace("+", " ")
        return Replied(body=bodies.get(encoding, b"not gzip"), headers={"content-encoding": encoding.partition("!")[0]})

    with anyio.fail_after(60):
        async with web(reply) as server, SafeHttp(LOOPBACK) as http:
            assert (await get(http, server.url("/gzip"))).body == b"reached"
            for path, why in (("/br", "'br'"), ("/gzip,+gzip", "not requested"), ("/gzip!", "damaged")):
                with pytest.raises(ToolFailed, match=why):
                    await get(http, server.url(path))
    assert {asked.headers["accept-encoding"] for asked in server.asked} == {"gzip"}


async def test_a_server_that_does_not_answer_fails_at_the_deadline_and_a_cancelled_call_closes_its_socket() -> None:
    asked = anyio.Event()

    async def hang(request: Asked) -> Replied:
        asked.set()
        await anyio.sleep_forever()
        return Replied()

    with anyio.fail_after(60):
        async with web(hang) as server, SafeHttp(LOOPBACK) as http:
            with pytest.raises(ToolFailed, match=r"within 0.05 seconds"):
                await get(http, server.url(), timeout_seconds=0.05)
            async with anyio.create_task_group() as tasks:
                asked = anyio.Event()
                tasks.start_soon(get, http, server.url())
                await asked.wait()
                tasks.cancel_scope.cancel()
            assert http._pool is not None
            assert http._pool.connections == []


async def test_a_tenant_whose_servers_do_not_answer_leaves_connections_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentvm.tools.safe_http.CONNECTIONS_MAX", 4)
    monkeypatch.setattr("agentvm.tools.safe_http.OWNER_CONNECTIONS_MAX", 2)
    answering, waiting = anyio.Event(), anyio.Event()

    async def hang(request: Asked) -> Replied:
        waiting.set()
        await answering.wait()
        return Replied()

    async def ask(http: SafeHttp, url: str, owner: str) -> Fetched:
        return await http.send(Outgoing(method="GET", url=parse_url(url)), owner=owner)

    with anyio.fail_after(60):
        async with web(hang) as slow, web(ok) as quick, SafeHttp(LOOPBACK) as http, anyio.create_task_group() as tasks:
            for _ in range(6):
                tasks.start_soon(ask, http, slow.url("/"), "acme")
            await waiting.wait()
            for _ in range(5):
                # Each is given back with its answer.
                assert (await ask(http, quick.url("/"), "bolt")).status == 200
            with pytest.raises(EgressRefused):
                await ask(http, "http://10.0.0.1/", "bolt")
            answering.set()
            assert (await ask(http, quick.url("/"), "acme")).status == 200


async def test_nothing_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with anyio.fail_after(60):
        async with web(ok) as server, SafeHttp(LOOPBACK) as http:
            assert (await get(http, server.url())).status == 200
        assert "authorization" not in server.asked[0].headers


async def test_cookies_are_not_kept() -> None:
    with anyio.fail_after(60):
        async with web(lambda asked: Replied(headers={"set-cookie": "a=1; Path=/"})) as server, SafeHttp(LOOPBACK) as http:
            await get(http, server.url())
            await get(http, server.url())
    assert "cookie" not in server.asked[1].headers


async def test_a_port_that_is_none_is_refused_before_anything_is_connected() -> None:
    async with SafeHttp(AddressRules.parse(["127.0.0.0/8"])) as http:
        with pytest.raises(EgressRefused, match="65535"):
            await get(http, "http://127.0.0.1:65536/")
