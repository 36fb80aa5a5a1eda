"""The bus over NATS: what is published is heard, what is lost is counted, and a server that is open to all is refused."""

import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import anyio
import pytest
from tests.faults.process import until
from tests.provision.nats import PROTECTED, Nats
from tests.provision.nats import nats as provide_nats

from agentvm.cluster import nats as nats_module
from agentvm.cluster.bus import Bus, Seal
from agentvm.cluster.nats import open_nats
from agentvm.cluster.nats_wire import parse_addresses
from agentvm.errors import ConfigInvalid

KEY = b"k" * 32


@dataclass
class Listener:
    """Keeps what it hears."""

    heard: list[bytes] = field(default_factory=list)

    def __call__(self, body: bytes) -> None:
        self.heard.append(body)

    async def until(self, count: int) -> None:
        with anyio.fail_after(60):
            await until(lambda: len(self.heard) >= count)


@asynccontextmanager
async def buses(url: str, *keys: bytes) -> AsyncIterator[list[Bus]]:
    async with AsyncExitStack() as stack:
        opened = [
            await stack.enter_async_context(open_nats(parse_addresses(url), Seal(key), "avm.test", f"n{number}"))
            for number, key in enumerate(keys)
        ]
        for bus in opened:
            await up(bus)
        yield opened


async def up(bus: Bus, expected: bool = True) -> None:
    with anyio.fail_after(60):
        await until(lambda: bus.is_up is expected)


async def test_who_listens_hears_what_others_publish_in_order_and_nothing_of_other_topics(nats: Nats) -> None:
    async with buses(nats.url, KEY, KEY) as (a, b):
        listener, other = Listener(), Listener()
        b.listen("x", listener)
        b.listen("y", other)
        a.listen("x", other)
        assert await b.settle()
        bodies = [b"%d" % number * 1000 for number in range(200)]
        assert all(a.publish("x", body) for body in bodies)
        await listener.until(200)
        assert listener.heard == bodies
        assert other.heard == []
        b.unlisten("x")
        assert await b.settle()
        a.publish("x", b"more")
        a.publish("y", b"end")
        await other.until(1)
        assert len(listener.heard) == 200


async def test_a_message_without_the_code_of_the_server_key_is_dropped(nats: Nats) -> None:
    async with buses(nats.url, KEY, b"f" * 32, KEY) as (a, forger, b):
        listener = Listener()
        b.listen("x", listener)
        assert await b.settle()
        forger.publish("x", b"forged")
        assert await forger.settle()
        a.publish("x", b"true")
        await listener.until(1)
        assert listener.heard == [b"true"]


def test_a_code_is_of_one_topic() -> None:
    seal = Seal(KEY)
    closed = seal.close("n.1", b"body")
    assert seal.open("n.1", closed) == b"body"
    assert seal.open("n.2", closed) is None
    assert seal.open("n.1", closed[:-1]) is None
    assert seal.open("n.1", b"") is None


async def test_a_server_that_is_lost_and_comes_back_is_used_again_and_the_loss_is_counted() -> None:
    async with AsyncExitStack() as stack:
        with provide_nats() as first:
            a, b = await stack.enter_async_context(buses(first.url, KEY, KEY))
            listener = Listener()
            b.listen("x", listener)
        await up(a, expected=False)
        await up(b, expected=False)
        assert a.disturbed == b.disturbed == 1
        assert not a.publish("x", b"lost")
        assert not await a.settle()
        with provide_nats(*PROTECTED, port=first.port):
            await up(a)
            await up(b)
            # Once more: what was lost may have been told after the others had looked for it.
            assert a.disturbed == b.disturbed == 2
            assert await b.settle()
            assert a.publish("x", b"told")
            await listener.until(1)
            assert listener.heard == [b"told"]


async def test_a_server_that_freezes_is_left_and_what_does_not_fit_is_dropped_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nats_module, "PING_SECONDS", 0.3)
    with provide_nats() as server:
        async with buses(server.url, KEY) as (bus,):
            server.process.send_signal(signal.SIGSTOP)
            piece = b"x" * 500_000
            taken = [bus.publish("x", piece) for _ in range(6)]
            assert taken == [True] * 4 + [False] * 2
            assert bus.disturbed == 2
            await up(bus, expected=False)
            assert bus.disturbed == 3
            server.process.send_signal(signal.SIGCONT)
            await up(bus)


async def test_an_error_within_the_block_is_raised_as_it_is(nats: Nats) -> None:
    with pytest.raises(KeyError):
        async with buses(nats.url, KEY):
            raise KeyError


async def test_a_message_that_is_too_large_for_the_server_is_not_sent(nats: Nats) -> None:
    async with buses(nats.url, KEY) as (bus,):
        assert not bus.publish("x", b"x" * 1024 * 1024)
        assert bus.is_up


async def test_a_server_without_a_password_is_refused_when_it_is_open_to_the_network(nats: Nats) -> None:
    with provide_nats("-T=false", host="0.0.0.0") as server:
        with pytest.raises(ConfigInvalid, match="open to the network without a password"):
            async with open_nats(parse_addresses(f"nats://127.0.0.1:{server.port}"), Seal(KEY), "avm", "n"):
                pass


async def test_a_server_without_a_password_on_this_machine_alone_is_used(nats: Nats) -> None:
    with provide_nats("-T=false") as server:
        async with buses(f"nats://127.0.0.1:{server.port}", KEY) as (bus,):
            assert bus.is_up


async def test_a_wrong_password_is_refused_and_not_shown(nats: Nats) -> None:
    wrong = parse_addresses(f"nats://avm:wrong-one@127.0.0.1:{nats.port}")
    with pytest.raises(ConfigInvalid, match="check user and password") as refused:
        async with open_nats(wrong, Seal(KEY), "avm", "n"):
            pass
    assert "wrong-one" not in str(refused.value)


async def test_what_is_no_nats_server_is_refused() -> None:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:

        async def greet(stream: anyio.abc.SocketStream) -> None:
            async with stream:
                await stream.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        tasks.start_soon(listener.serve, greet)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        with pytest.raises(ConfigInvalid, match="not a NATS server"):
            async with open_nats(parse_addresses(f"nats://127.0.0.1:{port}"), Seal(KEY), "avm", "n"):
                pass
        tasks.cancel_scope.cancel()


async def test_a_server_that_cannot_be_reached_is_tried_again_until_it_can(nats: Nats) -> None:
    with provide_nats() as server:
        port = server.port
    async with open_nats(parse_addresses(f"nats://avm:s3cret@127.0.0.1:{port}"), Seal(KEY), "avm", "n") as bus:
        assert not bus.is_up
        with provide_nats(*PROTECTED, port=port):
            await up(bus)
