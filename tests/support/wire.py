"""Raw AgentX 1.x clients: what agentxjs does on the wire, in as few lines as show it.

`Client19` is 1.9: acknowledges wrapped frames, subscribes to what replies name. `Client18` is 1.8.1: understands only
bare frames and never subscribes. `Browser` is 1.9 in a browser: sends `auth` first, and after a drop connects and
subscribes again.
"""

import itertools
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

import anyio
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

Json = dict[str, Any]
WAIT = 60.0
"""Seconds until a wait is a failure."""

C = TypeVar("C", bound="Client19")
Kind = Callable[[ClientConnection], C]
_request_numbers = itertools.count(1)


class Client19:
    """`events` is everything dispatched so far, in order; own responses included."""

    wraps = True
    subscribes = True

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.events: list[Json] = []
        self.raw: list[str | bytes] = []
        self.acked: list[str] = []
        self.sent: list[Json] = []
        self.subscribed: list[str] = []
        self.requested: set[str] = set()
        self.closed = False
        self._news = anyio.Event()

    # --- what the client does by itself

    async def read(self) -> None:
        try:
            async for text in self.socket:
                self.raw.append(text)
                await self._receive(json.loads(text))
        except ConnectionClosed:
            pass
        finally:
            self.closed = True
            self._tell()

    async def _receive(self, frame: Any) -> None:
        if isinstance(frame, dict) and "__msgId" in frame and "__payload" in frame:
            if not self.wraps:
                return
            self.acked.append(frame["__msgId"])
            await self.socket.send(json.dumps({"__ack": frame["__msgId"]}))
            frame = json.loads(frame["__payload"])
        self.events.append(frame)
        data = frame.get("data")
        own = frame.get("category") == "response" and data.get("requestId") in self.requested
        if own and self.subscribes:
            for session_id in data.get("__subscriptions") or ():
                if session_id not in self.subscribed:
                    self.subscribed.append(session_id)
                    await self.send({"type": "subscribe", "sessionId": session_id})
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = anyio.Event()

    # --- what a test makes it do

    async def send(self, frame: Json) -> None:
        self.sent.append(frame)
        await self.socket.send(json.dumps(frame))

    async def ask(self, kind: str, **data: Any) -> str:
        """Sends a request without waiting for its answer; returns its id."""
        request_id = f"req_{next(_request_numbers)}"
        self.requested.add(request_id)
        frame = {"type": kind, "timestamp": int(time.time() * 1000), "data": {**data, "requestId": request_id}}
        await self.send({**frame, "source": "command", "category": "request", "intent": "request"})
        return request_id

    async def answer(self, request_id: str) -> Json:
        """The whole response event."""
        return await self.wait(
            lambda event: event.get("category") == "response" and event["data"].get("requestId") == request_id
        )

    async def request(self, kind: str, **data: Any) -> Json:
        """The response's data, `error` or not."""
        found: Json = (await self.answer(await self.ask(kind, **data)))["data"]
        return found

    async def until(self, done: Callable[[], bool]) -> None:
        with anyio.fail_after(WAIT):
            while not done():
                if self.closed:
                    raise AssertionError(f"the socket closed with {self.socket.close_code} {self.socket.close_reason!r}")
                await self._news.wait()

    async def wait(self, wanted: Callable[[Json], bool] | str, count: int = 1) -> Json:
        """The count-th event of that type, past or future."""
        check = (lambda event: event.get("type") == wanted) if isinstance(wanted, str) else wanted
        found: list[Json] = []

        def done() -> bool:
            found[:] = [event for event in self.events if check(event)]
            return len(found) >= count

        try:
            await self.until(done)
        except TimeoutError:
            raise AssertionError(f"waited in vain for {wanted}; saw {self.types}") from None
        return found[count - 1]

    async def wait_closed(self) -> int | None:
        """The close code the client sees."""
        with anyio.fail_after(WAIT):
            while not self.closed:
                await self._news.wait()
        return self.socket.close_code

    @property
    def types(self) -> list[str]:
        return [event.get("type", "?") for event in self.events]

    def since(self, mark: int, *, additive: frozenset[str] = frozenset()) -> list[str]:
        """The types from that event on, without those that 1.x does not have."""
        return [kind for kind in self.types[mark:] if kind not in additive]

    # --- common steps

    async def image(self, container_id: str = "c1", **config: Any) -> Json:
        record: Json = (await self.request("image_create_request", containerId=container_id, config=config))["record"]
        return record

    async def say(self, image_id: str, content: Any) -> Json:
        """Sends a message and waits for its turn's last event; returns that event."""
        sent = await self.request("message_send_request", imageId=image_id, content=content)
        assert "error" not in sent, sent
        return await self.end_of(sent["turnId"])

    async def end_of(self, turn_id: str) -> Json:
        return await self.wait(lambda event: event.get("type") == "turn_response" and event["data"]["turnId"] == turn_id)

    async def settle(self) -> None:
        """Returns when everything the server queued for this client before now has arrived."""
        await self.request("container_list_request")


def _answers(event: Json, request_id: str) -> bool:
    """1.x does not compare the type."""
    return event.get("category") == "response" and event["data"].get("requestId") == request_id


class Client18(Client19):
    wraps = False
    subscribes = False


@asynccontextmanager
async def client_of(kind: "Kind[C]", url: str, **options: Any) -> AsyncIterator[C]:
    """A connected client that reads until the block ends."""
    options = {"max_size": None, "compression": None, "ping_interval": None, **options}
    async with connect(url, **options) as socket, anyio.create_task_group() as tasks:
        connected = kind(socket)
        tasks.start_soon(connected.read)
        yield connected
        await socket.close()


def client(url: str, **options: Any) -> AbstractAsyncContextManager[Client19]:
    return client_of(Client19, url, **options)


class Browser:
    """A reconnecting client; `now` is its current socket's client, which keeps what earlier ones knew."""

    def __init__(self, url: str, headers: dict[str, str] | None = None) -> None:
        self._url = url
        self._headers = headers
        self._known: list[str] = []

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Client19]:
        """One socket of it: `auth` if there are headers, then one `subscribe` per session it knows."""
        async with client(self._url) as now:
            if self._headers:
                await now.send({"type": "auth", "headers": self._headers})
            for session_id in self._known:
                now.subscribed.append(session_id)
                await now.send({"type": "subscribe", "sessionId": session_id})
            yield now
            self._known = list(now.subscribed)

    async def drop(self, now: Client19) -> None:
        """Cuts the socket without a goodbye, as a lost network does."""
        now.socket.transport.abort()
        await now.wait_closed()


def named(url: str, client_id: str = "7b1f5a52-8f0e-4d53-9c26-3a1b6f2c9d10") -> str:
    """The URL of a client that can be recognised when it comes back."""
    return f"{url}?client={client_id}"


def seqs(one: Client19, session_id: str) -> list[int]:
    """The cursors of what it heard of the session, in that order."""
    heard = (event for event in one.events if event.get("context", {}).get("sessionId") == session_id)
    return [int(event["cursor"]) for event in heard if "cursor" in event]
