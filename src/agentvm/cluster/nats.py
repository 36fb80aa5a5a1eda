"""NATS — the bus between nodes over a NATS server: one connection, which is opened again whenever it is lost."""

import ssl
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import anyio.abc
import msgspec
from anyio.streams.tls import TLSStream

from agentvm.cluster.bus import Bus, OnPayload, Seal
from agentvm.cluster.nats_wire import (
    PING,
    PONG,
    NatsAddress,
    NatsMessage,
    NatsReader,
    NatsServerInfo,
    connect_line,
    publish_command,
    subscribe_command,
    unsubscribe_command,
)
from agentvm.errors import ConfigInvalid
from agentvm.log import get_logger
from agentvm.model.address import is_loopback
from agentvm.runtime.tasks import open_tasks

logger = get_logger(__name__)

PENDING_MAX_BYTES = 2 * 1024 * 1024
"""Bytes that wait to be sent; further messages are dropped."""
OPEN_SECONDS = 3.0
PING_SECONDS = 1.0
SILENT_PINGS_MAX = 2
"""A server that leaves so many in a row unanswered is gone."""
RECONNECT_SECONDS = 0.5
SETTLE_SECONDS = 2.0
READ_BYTES = 256 * 1024

_LOST = (OSError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, ssl.SSLError, ValueError)


class NatsBus:
    """The bus of one node. `prefix` keeps the clusters apart that share a server."""

    def __init__(self, addresses: Sequence[NatsAddress], seal: Seal, prefix: str, name: str) -> None:
        self._addresses = deque(addresses)
        self._seal, self._prefix, self._name = seal, prefix, name
        self._topics: dict[str, tuple[int, OnPayload]] = {}
        self._numbers: dict[int, str] = {}
        self._last_number = 0
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._wakeup = anyio.Event()
        self._pongs: deque[tuple[anyio.Event, float]] = deque()
        """The pings without an answer, and when each was sent."""
        self._reader = NatsReader()
        self._payload_max_bytes = 0
        self._is_up = False
        self.disturbed = 0
        self.connected: Callable[[], None] = lambda: None

    @property
    def is_up(self) -> bool:
        return self._is_up

    def publish(self, topic: str, body: bytes) -> bool:
        if not self._is_up:
            # Counted when it was lost.
            return False
        command = publish_command(f"{self._prefix}.{topic}", self._seal.close(topic, body))
        if self._pending_bytes + len(command) > PENDING_MAX_BYTES or len(body) + 64 > self._payload_max_bytes:
            self.disturbed += 1
            return False
        self._send(command)
        return True

    def listen(self, topic: str, hear: OnPayload) -> None:
        self._last_number += 1
        self._topics[topic] = (self._last_number, hear)
        self._numbers[self._last_number] = topic
        if self._is_up:
            self._send(subscribe_command(f"{self._prefix}.{topic}", self._last_number))

    def unlisten(self, topic: str) -> None:
        number, _ = self._topics.pop(topic, (0, None))
        if number:
            del self._numbers[number]
            if self._is_up:
                self._send(unsubscribe_command(number))

    async def settle(self) -> bool:
        if not self._is_up:
            return False
        answered = self._ping()
        with anyio.move_on_after(SETTLE_SECONDS):
            await answered.wait()
            return self._is_up
        return False

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Keeps the connection open, until cancelled; started once it was tried. `ConfigInvalid` if that must not be used."""
        stream = await self._try_all()
        task_status.started()
        while True:
            try:
                await self._serve(stream or await self._open())
            except ConfigInvalid as error:
                logger.error("nats_refused", error=str(error))
            except TimeoutError:
                logger.warning("nats_unreachable", server=self._addresses[0].shown, error="no answer")
            except _LOST as error:
                logger.warning("nats_unreachable", server=self._addresses[0].shown, error=str(error) or type(error).__name__)
            stream = None
            self._addresses.rotate(-1)
            await anyio.sleep(RECONNECT_SECONDS)

    async def _try_all(self) -> anyio.abc.ByteStream | None:
        """A first connection; None while no server can be reached. `ConfigInvalid` if one must not be used."""
        for _ in range(len(self._addresses)):
            try:
                return await self._open()
            except ConfigInvalid:
                raise
            except (TimeoutError, *_LOST) as error:
                why = str(error) or type(error).__name__
                logger.warning("nats_unreachable", server=self._addresses[0].shown, error=why)
                self._addresses.rotate(-1)
        return None

    async def _open(self) -> anyio.abc.ByteStream:
        address = self._addresses[0]
        with anyio.fail_after(OPEN_SECONDS):
            async with AsyncExitStack() as unless_opened:
                stream: anyio.abc.ByteStream = await anyio.connect_tcp(address.host, address.port)
                unless_opened.push_async_callback(anyio.aclose_forcefully, stream)
                reader = self._reader = NatsReader()
                info = await _greeting(stream, reader)
                peer = str(stream.extra(anyio.abc.SocketAttribute.remote_address)[0])
                _check(info, address, peer)
                if address.tls or info.tls_required:
                    context = ssl.create_default_context()
                    stream = await TLSStream.wrap(stream, hostname=address.host, ssl_context=context, standard_compatible=False)
                await stream.send(connect_line(address, self._name))
                # Errors of CONNECT come before the answer to its PING.
                await _answer(stream, reader, address)
                unless_opened.pop_all()
        self._payload_max_bytes = info.max_payload
        return stream

    async def _serve(self, stream: anyio.abc.ByteStream) -> None:
        """Sends and receives until the connection is lost."""
        self._pending = [
            subscribe_command(f"{self._prefix}.{topic}", topic_entry[0]) for topic, topic_entry in self._topics.items()
        ]
        self._pending_bytes = sum(map(len, self._pending))
        self._wakeup = anyio.Event()
        self._wakeup.set()
        self._is_up = True
        if self.disturbed:
            # What was told since it was lost was not published, and the others may have compared before that.
            self.disturbed += 1
        logger.info("nats_connected", server=self._addresses[0].shown)
        self.connected()
        try:
            async with stream, open_tasks() as tasks:
                for work in (self._read, self._write, self._keep_alive):
                    tasks.start_soon(self._until_lost, work, stream, tasks.cancel_scope)
        finally:
            self._is_up = False
            # What was on the way in either direction may be lost; so is what is told until it is back.
            self.disturbed += 1
            while self._pongs:
                self._pongs.popleft()[0].set()

    async def _until_lost(
        self,
        work: Callable[[anyio.abc.ByteStream], Awaitable[None]],
        stream: anyio.abc.ByteStream,
        scope: anyio.CancelScope,
    ) -> None:
        try:
            await work(stream)
        except _LOST as error:
            logger.warning("nats_lost", server=self._addresses[0].shown, error=str(error) or type(error).__name__)
            scope.cancel()

    async def _read(self, stream: anyio.abc.ByteStream) -> None:
        data = b""
        while True:
            for line in self._reader.feed(data):
                if isinstance(line, NatsMessage):
                    self._receive(line)
                elif line == b"PING":
                    self._send(PONG)
                elif line == b"PONG":
                    if self._pongs:
                        self._pongs.popleft()[0].set()
                elif line.startswith(b"-ERR"):
                    raise ConnectionError(line[5:].decode(errors="replace"))
            data = await stream.receive(READ_BYTES)

    def _receive(self, message: NatsMessage) -> None:
        topic = self._numbers.get(message.number)
        if topic is None:
            # Unsubscribed a moment ago.
            return
        body = self._seal.open(topic, message.body)
        if body is None:
            logger.warning("bus_message_forged", topic=topic)
            return
        self._topics[topic][1](body)

    async def _write(self, stream: anyio.abc.ByteStream) -> None:
        while True:
            await self._wakeup.wait()
            sent, self._pending, self._wakeup = self._pending, [], anyio.Event()
            await stream.send(b"".join(sent))
            self._pending_bytes -= sum(map(len, sent))

    async def _keep_alive(self, _stream: anyio.abc.ByteStream) -> None:
        while True:
            self._ping()
            await anyio.sleep(PING_SECONDS)
            if self._pongs and anyio.current_time() - self._pongs[0][1] > PING_SECONDS * SILENT_PINGS_MAX:
                raise ConnectionError("the server does not answer")

    def _ping(self) -> anyio.Event:
        answered = anyio.Event()
        self._pongs.append((answered, anyio.current_time()))
        self._send(PING)
        return answered

    def _send(self, command: bytes) -> None:
        self._pending.append(command)
        self._pending_bytes += len(command)
        self._wakeup.set()


async def _greeting(stream: anyio.abc.ByteStream, reader: NatsReader) -> NatsServerInfo:
    line = await _line(stream, reader)
    if not line.startswith(b"INFO "):
        raise ConfigInvalid("cluster.nats: the server at this address is not a NATS server")
    try:
        return msgspec.json.decode(line[5:], type=NatsServerInfo)
    except msgspec.DecodeError:
        raise ConfigInvalid("cluster.nats: the server at this address is not a NATS server") from None


async def _line(stream: anyio.abc.ByteStream, reader: NatsReader) -> bytes:
    data = b""
    while True:
        for line in reader.feed(data):
            if isinstance(line, bytes):
                return line
        data = await stream.receive(READ_BYTES)


async def _answer(stream: anyio.abc.ByteStream, reader: NatsReader, address: NatsAddress) -> None:
    while (line := await _line(stream, reader)) != b"PONG":
        if line.startswith(b"-ERR"):
            line_text = line[5:].decode(errors="replace").strip("'")
            remedy = "; check user and password in AVM_NATS" if "uthorization" in line_text else ""
            raise ConfigInvalid(f"cluster.nats: {address.shown} refuses this node: {line_text}{remedy}")


def _check(info: NatsServerInfo, address: NatsAddress, peer: str) -> None:
    """Refuses a server that is open to the whole network: events of all tenants pass through it."""
    is_private = is_loopback(peer) and is_loopback(info.host)
    if not info.auth_required and not info.tls_verify and not is_private:
        raise ConfigInvalid(
            f"cluster.nats: {address.shown} is open to the network without a password, though events of all tenants pass "
            "through it: give it a user and a password (authorization in its configuration), or let it listen on 127.0.0.1"
        )


@asynccontextmanager
async def open_nats(addresses: Sequence[NatsAddress], seal: Seal, prefix: str, name: str) -> AsyncGenerator[Bus]:
    """The bus over these servers, used from now on whenever one can be reached. `ConfigInvalid` if one must not be used."""
    bus = NatsBus(addresses, seal, prefix, name)
    async with open_tasks() as tasks:
        await tasks.start(bus.run)
        try:
            yield bus
        finally:
            tasks.cancel_scope.cancel()
