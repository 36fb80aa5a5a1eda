"""Readers — clients that are recognised when they reconnect, by the id in their URL: `/ws?client=<id>`.

Theory of operation. A 1.x browser client connects again under the same URL and subscribes again, but it names no cursor. Its
position is the last event that it has acknowledged. While it is connected, that is in memory (`Acks`); when its socket ends for
any reason, it is saved as rows; when the same id comes back, the rows are taken: read and deleted. A `subscribe` then continues
where the client was, as if it had named the cursor itself.

    the id comes back        its places are
    after its socket ended   taken from the store
    while its socket lives   first saved for the old socket, which stays but is no reader any more, then taken
    after a crash            gone: the client hears from the next event on, and nothing twice

Saves and takes of one id happen in the order they are asked for: the store has one writer. In a cluster the socket may live on
another node. The nodes connected to the bus are asked to save its position within `OTHER_NODES_TIMEOUT_SECONDS`; a node that
is not connected, or does not answer, is treated as crashed.
"""

import re
from collections.abc import Sequence
from itertools import islice

import anyio
import msgspec

from agentvm.cluster.mailbox import Answered, Mailbox
from agentvm.errors import AgentVMError
from agentvm.log import get_logger
from agentvm.model.ids import SessionId, TenantId, UserId
from agentvm.model.principal import Principal
from agentvm.protocol.acks import PENDING_FRAMES_MAX, Acks
from agentvm.protocol.codec import Frame
from agentvm.protocol.dialect_v1 import encode_event
from agentvm.runtime.channel import Channel
from agentvm.sharing.byte_budget import ByteBudget
from agentvm.storage.base import ReaderPlace
from agentvm.vm import OPEN_ACCESS, AgentVM, Peer

logger = get_logger(__name__)

PLACES_MAX = 1_000
"""Sessions that are remembered for one reader."""

ACK_TIMEOUT_SECONDS = 3.0
"""A reader that acknowledges nothing for this long is treated as a client without acknowledgements."""

LAST_ACKS_SECONDS = 1.0
"""A closing socket waits this long for the last acknowledgements: after a close frame nothing is read."""

SAVE_TIMEOUT_SECONDS = 5.0
"""Timeout of the store when a socket has ended."""

OTHER_NODES_TIMEOUT_SECONDS = 0.3
"""Time for which a client that reconnects waits for nodes on which its previous socket may still be open."""

QUESTION = "reader"
"""The kind of question with which a node asks the others for a reader."""

_CLIENT_ID = re.compile(rb"[A-Za-z0-9_-]{8,64}")


def client_id_of(query: bytes) -> str | None:
    """Returns the first `client` of a query string; None for an invalid id."""
    for member in query.split(b"&"):
        name, _, value = member.partition(b"=")
        if name == b"client":
            return value.decode() if _CLIENT_ID.fullmatch(value) else None
    return None


class ReadChannel(Channel):
    """Records the first event of each session for its peer, also when the frame never leaves."""

    __slots__ = ("_acks",)

    def __init__(self, principal: Principal, acks: Acks, budget: ByteBudget | None = None) -> None:
        super().__init__(principal, encode_event, budget)
        self._acks = acks

    def offer(self, frame: Frame, factor: int = 1) -> bool:
        if not super().offer(frame, factor):
            return False
        if frame.session_id is not None and frame.seq:
            self._acks.begin(frame.session_id, frame.seq - 1)
        return True

    def offer_all(self, frames: Sequence[Frame]) -> int:
        return self._offer_each(frames)


class Reader:
    """One socket of a client with an id."""

    def __init__(self, client_id: str, peer: Peer, acks: Acks) -> None:
        self.client_id = client_id
        self.peer = peer
        self.ready = anyio.Event()
        """Set when the places of the client were read."""
        self.places: dict[SessionId, ReaderPlace] = {}
        """The last positions of the client in sessions that it has not asked for since."""
        self.unsure = False
        """Whether the store may hold positions that are out of date."""
        self.acks = acks
        self._news = anyio.Event()
        self._left = False

    def resume(self, session_id: SessionId, after: int | None) -> int | None:
        """Returns the event that a subscription starts after; a cursor of the client takes precedence.

        A session that the socket is subscribed to already continues as it is, or events would be sent twice.
        """
        place = self.places.pop(session_id, None)
        if after is not None:
            self.acks.restart(session_id, after)
            return after
        if place is None or self.peer.vm.runtime.broadcaster.subscription(self.peer.channel, session_id) is not None:
            return None
        return place.seq

    def acknowledged(self) -> None:
        """Wakes the waiting writer after an acknowledgement."""
        self._news.set()

    async def greeted(self) -> None:
        """Returns when the first frame is acknowledged: from then on frames are wrapped, and each is accounted for.

        A client that does not in time gets bare frames, and its position is not known.
        """
        with anyio.move_on_after(ACK_TIMEOUT_SECONDS):
            while not self.acks.heard:
                await self._wait()
        if not self.acks.heard:
            self.acks.stop()

    @property
    def is_full(self) -> bool:
        """Whether the client must acknowledge an event before the next one is sent."""
        return self.acks.pending >= PENDING_FRAMES_MAX

    async def room(self) -> None:
        """Returns when another event may be sent; at once for a client that stopped acknowledging."""
        if self.acks.pending < PENDING_FRAMES_MAX:
            return
        with anyio.move_on_after(ACK_TIMEOUT_SECONDS):
            while self.acks.pending >= PENDING_FRAMES_MAX:
                await self._wait()
        if self.acks.pending >= PENDING_FRAMES_MAX:
            self.acks.stop()

    async def last_acks(self) -> None:
        with anyio.move_on_after(LAST_ACKS_SECONDS):
            while self.acks.pending:
                await self._wait()

    def leave(self) -> dict[SessionId, ReaderPlace]:
        """Returns the current positions of the client, once; from then on it is no reader."""
        if self._left:
            return {}
        self._left = True
        places = {}
        if not self.acks.stopped:
            now, tenant_id, replay = self.peer.vm.clock(), self.peer.tenant_id, self.peer.vm.runtime.replay
            quiet = {}
            for subscription in self.peer.vm.runtime.broadcaster.subscriptions(self.peer.channel):
                seq = self.acks.cursor(subscription.session_id)
                if seq is not None:
                    places[subscription.session_id] = ReaderPlace(seq, now)
                else:
                    # Nothing has reached its outbox: its position is where it began, or the end of the log.
                    began = (
                        replay.last(tenant_id, subscription.session_id) if subscription.cursor is None else subscription.cursor
                    )
                    quiet[subscription.session_id] = ReaderPlace(began, now)
            # If there are too many, sessions with events are kept.
            places |= quiet
        self.acks.stop()
        for session_id, place in self.places.items():
            places.setdefault(session_id, place)
        return dict(islice(places.items(), PLACES_MAX))

    async def _wait(self) -> None:
        self._news = anyio.Event()
        await self._news.wait()


def attach_reader(vm: AgentVM, client_id: str, principal: Principal = OPEN_ACCESS) -> Reader:
    """Attaches a peer as `AgentVM.attach` does, as a reader."""
    acks = Acks()
    return Reader(client_id, vm.attach(principal, ReadChannel(principal, acks, vm.budget)), acks)


Key = tuple[TenantId, UserId | None, str]
_key = msgspec.msgpack.Decoder(Key)


class Readers:
    """The connected readers, each the last socket of its client. In a cluster `mailbox` is that of this node."""

    def __init__(self, mailbox: Mailbox | None = None) -> None:
        self._connected: dict[Key, Reader] = {}
        self._mailbox = mailbox
        if mailbox is not None:
            mailbox.serving[QUESTION] = self._serve

    async def enter(self, reader: Reader) -> None:
        """Reads the positions of the client. If the store fails they are unknown, and nothing is sent again."""
        key = (reader.peer.tenant_id, reader.peer.principal.user_id, reader.client_id)
        earlier = self._connected.get(key)
        self._connected[key] = reader
        try:
            if earlier is not None:
                await earlier.ready.wait()
                await _save(earlier)
            if self._mailbox is not None:
                await self._mailbox.ask_others(msgspec.msgpack.encode(key), QUESTION, OTHER_NODES_TIMEOUT_SECONDS)
            reader.unsure = True
            reader.places = await reader.peer.store.take_reader(reader.client_id)
            reader.unsure = False
        except AgentVMError as error:
            logger.error("reader_not_found", code=error.code, error=str(error))
        finally:
            reader.ready.set()

    async def leave(self, reader: Reader) -> None:
        """Saves the positions of the client. To be called before its channel is detached; never raises, even when cancelled."""
        key = (reader.peer.tenant_id, reader.peer.principal.user_id, reader.client_id)
        if self._connected.get(key) is reader:
            del self._connected[key]
        with anyio.move_on_after(SAVE_TIMEOUT_SECONDS, shield=True) as patience:
            await _save(reader)
        if patience.cancelled_caught:
            logger.error(
                "reader_not_saved", code="timeout", error=f"The store did not answer within {SAVE_TIMEOUT_SECONDS:g} seconds"
            )

    async def _serve(self, body: bytes) -> Answered:
        """The client has come to another node."""
        reader = self._connected.pop(_key.decode(body), None)
        if reader is not None:
            await reader.ready.wait()
            await _save(reader)
        return b"", lambda: None


async def _save(reader: Reader) -> None:
    places = reader.leave()
    if not places and not reader.unsure:
        return
    try:
        await reader.peer.store.save_reader(reader.client_id, places)
    except AgentVMError as error:
        logger.error("reader_not_saved", code=error.code, error=str(error))
