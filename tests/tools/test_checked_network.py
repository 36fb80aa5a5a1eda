from ipaddress import ip_address

import httpcore2
import pytest

from agentvm.errors.tool import EgressRefused
from agentvm.model.address import IpAddress
from agentvm.model.public_address import AddressRules
from agentvm.tools.checked_network import CheckedNetwork, JoinedWrites


class FakeStream(httpcore2.AsyncNetworkStream):
    """A connection that answers `hello`, and notes what was sent."""

    def __init__(self, *, breaks: bool = False) -> None:
        self.sent: list[bytes] = []
        self._breaks = breaks

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - as the port has it
        return b"hello"

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as the port has it
        if self._breaks:
            raise httpcore2.WriteError("gone")
        self.sent.append(buffer)


async def test_a_name_that_changes_its_address_is_asked_once_and_never_reached() -> None:
    """Rebinding: the first answer is public, every later one is this machine."""
    asked, answers = [], ["203.0.114.1", "127.0.0.1"]

    async def resolve(name: str, port: int) -> tuple[IpAddress, ...]:
        asked.append(name)
        return (ip_address(answers.pop(0)),)

    network = CheckedNetwork(AddressRules(), resolve)
    assert await network.check("rebind.example", 80) == (ip_address("203.0.114.1"),)
    assert asked == ["rebind.example"]
    with pytest.raises(EgressRefused):
        await network.check("rebind.example", 80)


async def test_a_socket_of_this_machine_is_never_connected() -> None:
    with pytest.raises(EgressRefused):
        await CheckedNetwork(AddressRules()).connect_unix_socket("/run/docker.sock")


async def test_a_request_is_sent_in_one_piece_when_its_answer_is_read() -> None:
    stream = FakeStream()
    joined = JoinedWrites(stream)
    for request in (b"one ", b"two "):
        await joined.write(request)
        await joined.write(b"body")
        assert await joined.read(100) == b"hello"
    assert await joined.read(100) == b"hello"
    assert stream.sent == [b"one body", b"two body"]


async def test_a_long_body_is_not_held() -> None:
    stream = FakeStream()
    joined = JoinedWrites(stream)
    await joined.write(b"head")
    for _ in range(3):
        await joined.write(b"x" * 60_000)
    assert [len(piece) for piece in stream.sent] == [120_004]
    await joined.read(100)
    assert sum(map(len, stream.sent)) == 180_004


async def test_the_answer_of_a_server_that_takes_no_more_is_read_all_the_same() -> None:
    joined = JoinedWrites(FakeStream(breaks=True))
    await joined.write(b"a body that is refused")
    assert await joined.read(100) == b"hello"
