"""Provider — a scripted model provider over real HTTP and server-sent events on loopback.

    async with open_provider() as provider:
        provider.play(anthropic_text("Hello"))
        settings = DriverSettings(base_url=provider.base_url, api_key=Secret("k"))

Answers are consumed one per request, and the last repeats. What to answer is data (see `tests.support.answers`):
bytes to send, and pauses, stalls and disconnections between them. Every request is remembered, and whether its
client left before the answer was complete.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import anyio.abc
import h11
import msgspec

_READ_BYTES = 65536


@dataclass(frozen=True, slots=True)
class Wait:
    """Holds the answer until the event is set."""

    until: anyio.Event


@dataclass(frozen=True, slots=True)
class Delay:
    """Holds the answer for some seconds: a slow provider."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Stall:
    """Sends nothing more and keeps the connection open."""


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Closes the connection in the middle of the answer."""


Step = bytes | Wait | Delay | Stall | Disconnect


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The response to one request."""

    steps: Sequence[Step] = ()
    status: int = 200
    content_type: str = "text/event-stream"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class ProviderRequest:
    """A request of the client, and its outcome."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    connection: int
    """The same number: the same connection."""
    abandoned: anyio.Event = field(default_factory=anyio.Event)
    """Set when the client left before the answer was complete."""
    answered: anyio.Event = field(default_factory=anyio.Event)

    def json(self) -> dict[str, object]:
        return msgspec.json.decode(self.body, type=dict[str, object])


class ScriptedProvider:
    """Plays answers and remembers requests."""

    def __init__(self, port: int) -> None:
        self.base_url = f"http://127.0.0.1:{port}"
        self.requests: list[ProviderRequest] = []
        self._answers: list[Answer] = []
        self._answer_to: Callable[[ProviderRequest], Answer] | None = None
        self._connections = 0
        self._arrived = anyio.Event()

    def play(self, *answers: Answer) -> None:
        """Sets the responses from now on, one per request; the last repeats."""
        self._answers = list(answers)

    def answer(self, answer_to: Callable[[ProviderRequest], Answer]) -> None:
        """Lets a function make the response to each request from now on."""
        self._answer_to = answer_to

    async def wait_request(self, number: int = 1) -> ProviderRequest:
        """The request of this number, counted from one, when it has arrived."""
        while len(self.requests) < number:
            await self._arrived.wait()
        return self.requests[number - 1]

    async def serve(self, stream: anyio.abc.ByteStream) -> None:
        """Serves one connection until either side has had enough."""
        self._connections += 1
        link = h11.Connection(h11.SERVER)
        number = self._connections
        async with stream:
            try:
                while (request := await _receive(link, stream, number)) is not None:
                    if not await self._answer(link, stream, request):
                        return
                    link.start_next_cycle()
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, h11.RemoteProtocolError):
                return

    async def _answer(self, link: h11.Connection, stream: anyio.abc.ByteStream, request: ProviderRequest) -> bool:
        answer = self._next_answer() if self._answer_to is None else self._answer_to(request)
        self.requests.append(request)
        self._arrived.set()
        self._arrived = anyio.Event()
        complete = False
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_watch, link, stream, request, tasks.cancel_scope)
            try:
                complete = await _send(link, stream, answer)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                request.abandoned.set()
            tasks.cancel_scope.cancel()
        if complete:
            request.answered.set()
        return complete and not request.abandoned.is_set()

    def _next_answer(self) -> Answer:
        if not self._answers:
            return Answer(status=500, content_type="text/plain", steps=[b"nothing to play"])
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


async def _receive(link: h11.Connection, stream: anyio.abc.ByteStream, connection: int) -> ProviderRequest | None:
    head: h11.Request | None = None
    body = bytearray()
    while True:
        event = link.next_event()
        if event is h11.NEED_DATA:
            try:
                link.receive_data(await stream.receive(_READ_BYTES))
            except anyio.EndOfStream:
                link.receive_data(b"")
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            headers = {name.decode(): value.decode() for name, value in head.headers}
            method, path = head.method.decode(), head.target.decode()
            return ProviderRequest(method=method, path=path, headers=headers, body=bytes(body), connection=connection)
        else:
            return None


async def _watch(
    link: h11.Connection, stream: anyio.abc.ByteStream, request: ProviderRequest, scope: anyio.CancelScope
) -> None:
    """Notices that the client has left. What it says early belongs to its next request."""
    try:
        while True:
            link.receive_data(await stream.receive(_READ_BYTES))
    except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        request.abandoned.set()
        scope.cancel()


async def _send(link: h11.Connection, stream: anyio.abc.ByteStream, answer: Answer) -> bool:
    """Whether the answer is complete, and the connection may serve another request."""
    headers = [("content-type", answer.content_type), ("transfer-encoding", "chunked"), *answer.headers.items()]
    await stream.send(link.send(h11.Response(status_code=answer.status, headers=headers)) or b"")
    for step in answer.steps:
        match step:
            case bytes():
                await stream.send(link.send(h11.Data(data=step)) or b"")
            case Wait(until=event):
                await event.wait()
            case Delay(seconds=seconds):
                await anyio.sleep(seconds)
            case Stall():
                await anyio.sleep_forever()
            case Disconnect():
                return False
    await stream.send(link.send(h11.EndOfMessage()) or b"")
    return True


@asynccontextmanager
async def open_provider() -> AsyncIterator[ScriptedProvider]:
    """A provider on a free loopback port, for as long as the context lasts."""
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        provider = ScriptedProvider(listener.extra(anyio.abc.SocketAttribute.local_port))
        tasks = anyio.create_task_group()
        await tasks.__aenter__()
        tasks.start_soon(listener.serve, provider.serve)
        try:
            yield provider
        finally:
            # Not `async with`: it would wrap a failed assertion in an exception group.
            tasks.cancel_scope.cancel()
            await tasks.__aexit__(None, None, None)
