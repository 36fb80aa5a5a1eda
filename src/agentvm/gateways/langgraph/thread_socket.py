"""Thread socket — the thread protocol over a WebSocket: each frame is a command, or an event of a subscription.

Commands are those of `commands`. All subscriptions of a socket are one event stream, so that its events come in their order:
clients take the end of a run on one subscription for the end of all. A new subscription begins the stream anew, and clients
skip events that they have by their ids.
"""

from collections.abc import Iterator

import msgspec

from agentvm.errors import Refused
from agentvm.gateways.langgraph.commands import CommandBody, command, read_params
from agentvm.gateways.langgraph.event_stream import EventStreamBody, stream_events
from agentvm.gateways.langgraph.threads import NAMES, get_thread
from agentvm.gateways.routes import Ask, GatewayProblem, GatewaySocket
from agentvm.gateways.talk import Talk
from agentvm.operations.http_reply import Streamed

SUBSCRIPTIONS_MAX = 32
"""Subscriptions of one socket."""
_DATA = b"data: "


class UnsubscribeParams(msgspec.Struct, frozen=True):
    subscription_id: str


class ThreadSocket:
    """The subscriptions of one socket."""

    def __init__(self) -> None:
        self._subscriptions: dict[str, EventStreamBody] = {}

    async def answer(self, ask: Ask[CommandBody], talk: Talk) -> tuple[str, bool]:
        match ask.body.method:
            case "subscription.subscribe":
                body = read_params(ask.body.params, EventStreamBody)
                await get_thread(ask, talk)
                if len(self._subscriptions) >= SUBSCRIPTIONS_MAX:
                    raise Refused(f"A socket has at most {SUBSCRIPTIONS_MAX} subscriptions; end one")
                name = talk.vm.new_id("sub")
                self._subscriptions[name] = body
                return _success(ask.body, {"subscription_id": name}), True
            case "subscription.unsubscribe":
                name = read_params(ask.body.params, UnsubscribeParams).subscription_id
                ended = self._subscriptions.pop(name, None)
                return _success(ask.body, {}), ended is not None and not self._subscriptions
            case _:
                return msgspec.json.encode((await command(ask, talk)).content).decode(), False

    async def stream(self, ask: Ask[CommandBody], talk: Talk) -> Streamed | None:
        subscribed = tuple(self._subscriptions.values())
        if not subscribed:
            return None
        channels = frozenset[str]().union(*(body.shown for body in subscribed))
        numbers = [body.since for body in subscribed if body.since is not None]
        since = min(numbers) if len(numbers) == len(subscribed) else None
        body = EventStreamBody(channels=tuple(sorted(channels)), since=since)
        return (await stream_events(Ask(body=body, path=ask.path, headers=ask.headers), talk)).streamed


def frames_of(piece: bytes) -> Iterator[str]:
    """Yields the events of a piece of the stream. Its heartbeat has none: a WebSocket has its own."""
    for line in piece.splitlines():
        if line.startswith(_DATA):
            yield line.removeprefix(_DATA).decode()


def refuse(body: CommandBody | None, problem: GatewayProblem) -> str:
    """Returns the answer to a frame that failed; `body` is None for one that could not be read."""
    about = {"type": "error", "id": None if body is None else body.id, "error": problem.code, "message": problem.message}
    return msgspec.json.encode(about).decode()


def _success(body: CommandBody, result: dict[str, str]) -> str:
    return msgspec.json.encode({"type": "success", "id": body.id, "result": result}).decode()


THREAD_SOCKET = GatewaySocket(
    path="/threads/{thread}/stream/events",
    opened=ThreadSocket,
    body=CommandBody,
    frames=frames_of,
    refuse=refuse,
    names=NAMES,
)
