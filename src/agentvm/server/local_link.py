"""Local link — a peer in the same process: the same commands and events, without a socket."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

import msgspec

from agentvm.errors import AgentVMError, ChannelClosed, InvalidInput, UnknownCommand
from agentvm.events.base import EventScope
from agentvm.operations.context import context_of
from agentvm.operations.dispatch import execute, handling, refuse
from agentvm.operations.table import CODEC, COMMANDS, command_name
from agentvm.protocol.codec import decode_event, encode, encode_request
from agentvm.protocol.connection import PeerConnection
from agentvm.protocol.link import ChannelState, EventHandler, Unsubscribe, WireEvent
from agentvm.protocol.requests import Reply, Request
from agentvm.runtime.channel import HUNG_UP, Channel
from agentvm.runtime.observer import Observer
from agentvm.server.websocket import take_frame
from agentvm.vm import Peer

R = TypeVar("R", bound=Reply)


class LocalLink:
    """The `RuntimeLink` of a peer. `channel` is the peer's own, or a mirror of it when a socket drains that one."""

    def __init__(self, peer: Peer, channel: Channel | None = None) -> None:
        self._peer = peer
        self._observer = Observer()
        self.channel = channel or peer.channel
        self._outlet = peer.outbox(channel)
        self._connection = PeerConnection(peer.vm.new_id("conn"), CODEC)

    async def run(self) -> None:
        """Delivers events until the channel closes; the last one is `disconnected`, with the reason."""
        try:
            while frames := await self._outlet.take():
                for frame in frames:
                    self._observer.react(decode_event(frame.bare))
            if self.channel.closing is not None:
                reason: dict[str, object] = {"message": self.channel.closing.reason}
                self._observer.react(WireEvent(type="disconnected", category="connection", data=reason))
        finally:
            self._observer.end_streams()

    @property
    def state(self) -> ChannelState:
        return "open" if self.channel.closing is None else "closed"

    async def connect(self) -> None:
        """Does nothing: a local link is open from the beginning, and does not open again once it is closed."""
        self._check_open()

    async def disconnect(self) -> None:
        """Ends the peer, and with it its socket if it has one."""
        for channel in (self._peer.channel, self.channel):
            channel.close(HUNG_UP)

    async def ask(self, command: Request[R]) -> R:
        # Through the codec, as over a socket: a wrong type is refused here too, and nothing mutable is shared.
        name = command_name(command)
        checked = CODEC.decode(name, _encode(f"{name}_request", command))
        self._check_open()
        with handling(self._peer, checked, None), context_of(self._peer) as context:
            try:
                principal = self._peer.principal
                await self._peer.vm.tenancy.quotas.hit(principal.tenant_id, principal.user_id)
                reply: R = await execute(context, checked)
            except AgentVMError as error:
                refuse(self._peer, error, None, EventScope(), Reply())
                raise
            finally:
                context.finish()
        return reply

    async def request(self, kind: str, data: dict[str, object]) -> WireEvent:
        name = kind.removesuffix("_request")
        if name not in COMMANDS or not kind.endswith("_request"):
            raise UnknownCommand(f"Unknown command: {kind}")
        reply: object = await self.ask(CODEC.decode(name, _encode(kind, data)))
        return WireEvent(
            type=f"{name}_response",
            timestamp=self._peer.vm.clock(),
            data=msgspec.to_builtins(reply),
            source="command",
            category="response",
            intent="result",
        )

    async def send(self, frame: Mapping[str, object]) -> None:
        text = encode_request("frame", frame)
        self._check_open()
        await take_frame(self._peer, self._connection, text)

    def on(self, kind: str | EventHandler, handler: EventHandler | None = None) -> Unsubscribe:
        return self._observer.on(kind, handler)

    def events(self) -> AbstractAsyncContextManager[AsyncIterator[WireEvent]]:
        self._check_open()
        return self._observer.events()

    def _check_open(self) -> None:
        if self.channel.closing is not None:
            raise ChannelClosed(f"This channel has ended ({self.channel.closing.reason}) and does not open again")


def _encode(kind: str, value: object) -> msgspec.Raw:
    try:
        return msgspec.Raw(encode(value).encode())
    except (TypeError, UnicodeEncodeError) as error:
        raise InvalidInput(f"Invalid {kind}: {error}") from None
