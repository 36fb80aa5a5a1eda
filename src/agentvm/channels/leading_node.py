"""Leading node — the node of a cluster that runs the chat channels, as the other nodes reach it.

Platforms send requests to any node, and clients read the status of a channel from any node: both are forwarded to the leading
node.
"""

from collections.abc import Sequence
from typing import Protocol

import anyio
import msgspec

from agentvm.cluster.mailbox import Answered, Mailbox
from agentvm.errors import AgentVMError
from agentvm.errors.cluster import NodeSilent
from agentvm.log import get_logger
from agentvm.model.channel import ChannelId, ChannelStatus, HookAnswer, PlatformHook

logger = get_logger(__name__)

HOOK, STATUS = "channel_hook", "channel_status"
"""The kinds of requests between nodes."""
STATUS_SECONDS = 2.0


class HookCall(msgspec.Struct, frozen=True):
    """A request of a platform that another node has received."""

    kind: str
    channel_id: str
    hook: PlatformHook


_encoder = msgspec.msgpack.Encoder()
_calls = msgspec.msgpack.Decoder(HookCall)
_answers: msgspec.msgpack.Decoder[HookAnswer | None] = msgspec.msgpack.Decoder(HookAnswer | None)
_ids = msgspec.msgpack.Decoder(list[ChannelId])
_statuses = msgspec.msgpack.Decoder(list[ChannelStatus | None])


class OwnChannels(Protocol):
    """The channels that run on this node."""

    def own_status(self, channel_id: ChannelId) -> ChannelStatus | None: ...

    async def take_own_hook(self, kind: str, channel_id: str, hook: PlatformHook) -> HookAnswer | None: ...


class LeadingHost:
    """Forwards requests to the node that runs the channels; `own` answers if that is this node."""

    def __init__(self, mailbox: Mailbox, own: OwnChannels) -> None:
        self._mailbox, self._own = mailbox, own
        mailbox.serving |= {HOOK: self._serve_hook, STATUS: self._serve_statuses}

    @property
    def is_here(self) -> bool:
        return self._mailbox.membership.is_leading()

    async def take_hook(self, kind: str, channel_id: str, hook: PlatformHook) -> HookAnswer | None:
        """Forwards a request of a platform; `NodeSilent` if the node does not answer, so that the platform sends it again."""
        try:
            return _answers.decode(await self._ask(HOOK, _encoder.encode(HookCall(kind, channel_id, hook))))
        except msgspec.DecodeError:
            raise NodeSilent("The node that runs the channels does not understand this request; try again") from None

    async def statuses(self, channel_ids: Sequence[ChannelId]) -> Sequence[ChannelStatus | None]:
        """Returns the status of each channel; None of one that does not run there, or if that node does not answer soon."""
        try:
            with anyio.move_on_after(STATUS_SECONDS):
                return _statuses.decode(await self._ask(STATUS, _encoder.encode(channel_ids)))
        except (AgentVMError, msgspec.DecodeError) as error:
            logger.warning("channels_not_asked", error=str(error))
        return [None] * len(channel_ids)

    async def _ask(self, kind: str, body: bytes) -> bytes:
        leading = min(self._mailbox.membership.up, default=0)
        if not leading or leading == self._mailbox.membership.node_id:
            raise NodeSilent("No node runs the channels at the moment; try again in a few seconds")
        return await self._mailbox.ask(leading, body, kind)

    async def _serve_hook(self, body: bytes) -> Answered:
        call = _calls.decode(body)
        answer = await self._own.take_own_hook(call.kind, call.channel_id, call.hook)
        return _encoder.encode(answer), lambda: None

    async def _serve_statuses(self, body: bytes) -> Answered:
        return _encoder.encode([self._own.own_status(channel_id) for channel_id in _ids.decode(body)]), lambda: None
