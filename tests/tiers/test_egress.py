"""The way out of a jail. The only host that answers here is this machine, which an operator has allowed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from types import SimpleNamespace

import anyio
import anyio.abc
import pytest

from agentvm.model.address import IpAddress
from agentvm.model.public_address import AddressRules
from agentvm.model.tier import Job, JobLimits, JobResult
from agentvm.tiers import egress as module
from agentvm.tiers.egress import EgressPolicy
from agentvm.tiers.process import ProcessTier, open_process_tier

FETCH = """
import http.client, json, sys
def run(url, method="GET", body=None):
    connection = http.client.HTTPConnection("127.0.0.1", 3128, timeout=60)
    connection.request(method, url, body=body)
    answer = connection.getresponse()
    return [answer.status, answer.read().decode()]
"""
TUNNEL = """
import socket
def run(target, send):
    line = socket.create_connection(("127.0.0.1", 3128), timeout=60)
    line.sendall(f"CONNECT {target} HTTP/1.1\\r\\nHost: {target}\\r\\n\\r\\n".encode())
    head = line.recv(1000).decode()
    if " 200 " not in head:
        return head.split()[1]
    line.sendall(send.encode())
    line.shutdown(socket.SHUT_WR)
    got = b""
    while piece := line.recv(65536):
        got += piece
    return got.decode()
"""


class Upstream:
    """A server on this machine: answers HTTP, echoes everything else in capitals."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.requests: list[bytes] = []

    async def serve(self, stream: anyio.abc.SocketStream) -> None:
        async with stream:
            try:
                data = await stream.receive()
            except anyio.EndOfStream:
                return
            self.requests.append(data)
            if b"HTTP/1.1" in data:
                await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
                return
            await stream.send(data.upper())


@asynccontextmanager
async def upstream() -> AsyncIterator[Upstream]:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0) as listener:
        server = Upstream(listener.extra(anyio.abc.SocketAttribute.local_port))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, server.serve)
            yield server
            tasks.cancel_scope.cancel()


class Names:
    """A name server that gives another answer each time, when it has several."""

    def __init__(self, **answers: list[str]) -> None:
        self.answers = answers
        self.asked = 0

    async def __call__(self, name: str, port: int) -> tuple[IpAddress, ...]:
        self.asked += 1
        texts = self.answers.get(name.replace(".", "_"), [])
        if not texts:
            raise OSError("no such name")
        return (ip_address(texts[min(self.asked, len(texts)) - 1]),)


NAMES = Names(api_example=["127.0.0.1"], evil_example=["127.0.0.1"], inner_example=["10.0.0.1"])


@asynccontextmanager
async def tier_with(**policy: object) -> AsyncIterator[ProcessTier]:
    rules = AddressRules.parse(["127.0.0.1"])
    async with open_process_tier(policy=EgressPolicy(**{"rules": rules, "resolve": NAMES, **policy})) as tier:  # type: ignore[arg-type]  # Fields of the policy.
        if not (await tier.offer()).egress:
            pytest.skip("this host forbids network namespaces")
        yield tier


async def fetch(tier: ProcessTier, url: str, *allow: str) -> object:
    job = Job(engine="python", code=FETCH, input={"url": url}, network=allow, limits=JobLimits(wall_ms=30_000))
    result = await tier.run(job)
    assert result.exit_code == 0, result.stderr
    return result.value


async def test_an_allowed_host_answers_and_others_are_refused() -> None:
    async with upstream() as server, tier_with() as tier:
        allow = f"api.example:{server.port}"
        assert await fetch(tier, f"http://api.example:{server.port}/a?b=c", allow) == [200, "hello"]
        assert server.requests[0].startswith(b"GET /a?b=c HTTP/1.1\r\nHost: api.example")
        assert b"\r\nConnection: close\r\n" in server.requests[0]
        for other in ("evil.example", "127.0.0.1", "localhost", "api.example.evil.example", "2130706433"):
            refused = await fetch(tier, f"http://{other}:{server.port}/", allow)
            assert isinstance(refused, list)
            assert refused[0] == 403, other
        assert (await fetch(tier, f"http://api.example:{server.port + 1}/", allow))[0] == 403  # type: ignore[index]  # A list.
        assert len(server.requests) == 1


async def test_what_a_job_has_reached_and_was_refused_is_logged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    entries: list[dict[str, object]] = []
    monkeypatch.setattr(module, "logger", SimpleNamespace(info=lambda event, **fields: entries.append(fields)))
    async with upstream() as server, tier_with() as tier:
        here = f"api.example:{server.port}"
        code = FETCH + f"\nfor url in ('http://{here}/a', 'http://{here}/b', 'http://evil.example:9/'): run(url)\ndel run"
        result = await tier.run(Job(engine="python", code=code, network=(here,), limits=JobLimits(wall_ms=30_000)))
        assert result.exit_code == 0, result.stderr
    (entry,) = entries
    assert entry["refused"] == ["evil.example:9"]
    assert list(entry["hosts"]) == [here]  # type: ignore[call-overload]  # A mapping.
    assert entry["moved"] == entry["hosts"][here] > 0  # type: ignore[index]


async def test_a_tunnel_carries_bytes_both_ways_until_both_ends_are_done() -> None:
    async with upstream() as server, tier_with() as tier:
        target, send = f"api.example:{server.port}", "x" * 1000
        job = Job(engine="python", code=TUNNEL, input={"target": target, "send": send}, network=(target,))
        assert (await tier.run(job)).value == send.upper()
        refused = Job(
            engine="python", code=TUNNEL, input={"target": f"evil.example:{server.port}", "send": ""}, network=(target,)
        )
        assert (await tier.run(refused)).value == "403"


async def test_a_host_on_the_list_whose_address_is_private_is_refused() -> None:
    async with tier_with() as tier:
        assert (await fetch(tier, "http://inner.example/", "inner.example"))[0] == 403  # type: ignore[index]  # A list.
        assert (await fetch(tier, "http://nowhere.example/", "*.example"))[0] == 502  # type: ignore[index]  # A list.


async def test_the_address_that_was_checked_is_the_one_that_is_used() -> None:
    async with upstream() as server:
        # Private at the second question, which is never asked.
        names = Names(api_example=["127.0.0.1", "10.0.0.1"])
        async with tier_with(resolve=names) as tier:
            assert await fetch(tier, f"http://api.example:{server.port}/", f"api.example:{server.port}") == [200, "hello"]
        assert names.asked == 1


async def test_nothing_but_the_proxy_can_be_reached() -> None:
    code = """
import socket
def attempt(family, kind, address):
    try:
        with socket.socket(family, kind) as line:
            line.settimeout(2)
            if kind == socket.SOCK_DGRAM:
                line.sendto(b"x", address)
            else:
                line.connect(address)
        return "reached"
    except OSError as error:
        return error.strerror or str(error)
def run(port):
    found = [attempt(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", port)),
             attempt(socket.AF_INET, socket.SOCK_STREAM, ("192.0.2.1", 80)),
             attempt(socket.AF_INET, socket.SOCK_DGRAM, ("192.0.2.1", 53)),
             attempt(socket.AF_INET6, socket.SOCK_STREAM, ("2001:db8::1", 80)),
             attempt(socket.AF_INET, socket.SOCK_RAW, ("192.0.2.1", 0))]
    try:
        socket.getaddrinfo("api.example", 80)
        found.append("resolved")
    except OSError:
        pass
    return found
"""
    async with upstream() as server, tier_with() as tier:
        result = await tier.run(Job(engine="python", code=code, input={"port": server.port}, network=("api.example",)))
        assert isinstance(result.value, list), result.stderr
        assert len(result.value) == 5
        assert "reached" not in result.value


async def test_ordinary_programs_find_the_proxy_by_their_variables() -> None:
    async with upstream() as server, tier_with() as tier:
        url = f"http://api.example:{server.port}/x"
        code = f"import urllib.request\nurllib.request.urlopen({url!r}, timeout=60).read().decode()"
        result = await tier.run(Job(engine="python", code=code, network=(f"api.example:{server.port}",)))
        assert result.value == "hello", result.stderr


async def test_bytes_are_counted_over_all_connections_of_a_job() -> None:
    async with upstream() as server, tier_with(most_bytes=5_000) as tier:
        target = f"api.example:{server.port}"
        code = (
            TUNNEL.replace("def run", "def once")
            + """
def run(target):
    got = []
    for _ in range(10):
        try:
            got.append(len(once(target, "y" * 800)))
        except OSError:
            got.append(-1)
    return got
"""
        )
        result: JobResult = await tier.run(Job(engine="python", code=code, input={"target": target}, network=(target,)))
        assert isinstance(result.value, list), result.stderr
        # Each takes 800 bytes out and brings 800 in.
        assert result.value[:3] == [800, 800, 800]
        assert 800 not in result.value[4:]


async def test_connections_at_a_time_have_a_bound_and_a_slow_one_is_cut() -> None:
    code = """
import socket, time
def run(port):
    idle = [socket.create_connection(("127.0.0.1", 3128)) for _ in range(4)]
    for one in idle:
        one.sendall(b"G")
    line = socket.create_connection(("127.0.0.1", 3128), timeout=60)
    line.sendall(f"GET http://api.example:{port}/ HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n".encode())
    return line.recv(1000).split()[1].decode()
"""
    async with upstream() as server, tier_with(connections=2, idle_seconds=0.3) as tier:
        job = Job(engine="python", code=code, input={"port": server.port}, network=(f"api.example:{server.port}",))
        assert (await tier.run(job)).value == "200"


async def test_a_connection_beyond_the_bound_waits_until_another_has_ended() -> None:
    code = """
import socket
def run(port):
    idle = [socket.create_connection(("127.0.0.1", 3128)) for _ in range(2)]
    for one in idle:
        # Without a byte it would wait in the kernel, and hold no place.
        one.sendall(b"G")
    line = socket.create_connection(("127.0.0.1", 3128), timeout=60)
    line.sendall(f"GET http://api.example:{port}/ HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n".encode())
    line.settimeout(0.3)
    try:
        line.recv(1)
        return "answered"
    except TimeoutError:
        idle[0].close()
        line.settimeout(60)
        return line.recv(1000).split()[1].decode()
"""
    async with upstream() as server, tier_with(connections=2) as tier:
        job = Job(engine="python", code=code, input={"port": server.port}, network=(f"api.example:{server.port}",))
        assert (await tier.run(job)).value == "200"


NONSENSE = ("nonsense", "GET / HTTP/1.1\\r\\nHost: x", "CONNECT api.example HTTP/9", "GET ftp://x/ HTTP/1.1\\r\\nHost: x")


@pytest.mark.parametrize("head", NONSENSE)
async def test_nonsense_is_answered_and_not_forwarded(head: str) -> None:
    code = f"""
import socket
line = socket.create_connection(("127.0.0.1", 3128))
line.sendall(b"{head}\\r\\n\\r\\n")
line.recv(1000).split()[1].decode()
"""
    async with tier_with() as tier:
        assert (await tier.run(Job(engine="python", code=code, network=("api.example",)))).value == "400"
