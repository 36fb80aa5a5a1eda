"""Spool — what comes in, checked and put aside on the disk until all of it is known to be good.

A whole account does not fit in memory, and the database's one writer must not wait for archives to be unpacked. So what was
checked is written to a file of our own, from which the writer takes it in one go; ids that are taken here are replaced then.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, cast

import msgspec

from agentvm.model.base import Record
from agentvm.model.ids import ContainerId, ImageId, SessionId, TurnId, check_container_id
from agentvm.model.image import Image
from agentvm.model.message import Message
from agentvm.model.session import Session
from agentvm.model.turn import Turn
from agentvm.sessions.archive import Counts
from agentvm.sessions.line import Unfit
from agentvm.storage.attachments import Upload
from agentvm.storage.carry import Attached, Carried, Said

IN_MEMORY = 4 * 1024 * 1024
TOGETHER = 256
"""Messages and turns that the writer gets at a time."""


class _File(Record):
    """An attachment on the spool; its bytes follow, if it is the first with that digest."""

    digest: str
    size: int
    media_type: str
    name: str | None = None
    has_body: bool = False


_encode = msgspec.json.Encoder().encode
_KINDS: dict[bytes, msgspec.json.Decoder[Image | Session | Message | Turn | _File]] = {
    b"i": msgspec.json.Decoder(Image),
    b"s": msgspec.json.Decoder(Session),
    b"m": msgspec.json.Decoder(Message),
    b"t": msgspec.json.Decoder(Turn),
    b"f": msgspec.json.Decoder(_File),
}


@dataclass(frozen=True, slots=True)
class Renamed:
    """The ids that are taken here, and what takes their place; `container` is where everything goes, if somewhere else."""

    images: Mapping[str, str] = field(default_factory=dict)
    sessions: Mapping[str, str] = field(default_factory=dict)
    container: ContainerId | None = None

    def image(self, image: Image) -> Image:
        return msgspec.structs.replace(
            image,
            image_id=ImageId(self.images.get(image.image_id, image.image_id)),
            session_id=SessionId(self.sessions.get(image.session_id, image.session_id)),
            container_id=self.container or image.container_id,
        )

    def session(self, session: Session) -> Session:
        fork = session.forked_from
        if fork is not None:
            origin = SessionId(self.sessions.get(fork.session_id, fork.session_id))
            fork = msgspec.structs.replace(fork, session_id=origin)
        return msgspec.structs.replace(
            session,
            session_id=SessionId(self.sessions.get(session.session_id, session.session_id)),
            image_id=ImageId(self.images.get(session.image_id, session.image_id)),
            container_id=self.container or session.container_id,
            forked_from=fork,
        )

    def turn_id(self, session_id: SessionId, turn_id: TurnId) -> TurnId:
        """A turn is named in bills, so a second session of the tenant must not have the same."""
        renamed = self.sessions.get(session_id)
        return turn_id if renamed is None else TurnId(f"{turn_id}_{renamed.rpartition('_')[2]}")


class Spool:
    """Takes an image, then its sessions, each with what was said in it. `Unfit` for what does not hold together."""

    def __init__(self) -> None:
        self._file = cast("BinaryIO", tempfile.SpooledTemporaryFile(max_size=IN_MEMORY))  # `close` is ours.
        self.images: dict[str, Image] = {}
        self.sessions: set[str] = set()
        self.counts = Counts()
        self.size = 0
        self._session: Session | None = None
        self._attached: set[tuple[str, str]] = set()
        self._bodies: dict[str, int] = {}
        self._messages: set[str] = set()
        self._turns: set[str] = set()
        self._client_keys: set[str] = set()

    def __enter__(self) -> "Spool":
        return self

    def __exit__(self, *details: object) -> None:
        self._file.close()

    @property
    def containers(self) -> dict[ContainerId, int]:
        """How many images go where."""
        found: dict[ContainerId, int] = {}
        for image in self.images.values():
            found[image.container_id] = found.get(image.container_id, 0) + 1
        return found

    def add_image(self, image: Image) -> None:
        check_container_id(image.container_id)
        if image.image_id in self.images:
            raise Unfit(f"there are two images {image.image_id}", "image.imageId")
        self.images[image.image_id] = image
        self._put(b"i", image)
        self.counts = msgspec.structs.replace(self.counts, images=self.counts.images + 1)

    def add_session(self, session: Session) -> None:
        if session.session_id in self.sessions:
            raise Unfit(f"there are two sessions {session.session_id}", "session.sessionId")
        if session.image_id not in self.images:
            raise Unfit(f"its image {session.image_id} is not there", "session.imageId")
        self.sessions.add(session.session_id)
        self._session, self._messages, self._turns, self._client_keys = session, set(), set(), set()
        self._put(b"s", session)
        self.counts = msgspec.structs.replace(self.counts, sessions=self.counts.sessions + 1)

    def add_turn(self, turn: Turn) -> None:
        if turn.turn_id in self._turns:
            raise Unfit(f"the session has two turns {turn.turn_id}", "turn.turnId")
        if turn.client_key is not None and turn.client_key in self._client_keys:
            raise Unfit("the session has two turns with that clientKey", "turn.clientKey")
        self._turns.add(turn.turn_id)
        self._client_keys.add(turn.client_key or "")
        self._put(b"t", turn)
        self.counts = msgspec.structs.replace(self.counts, turns=self.counts.turns + 1)

    def add_message(self, message: Message) -> None:
        if message.id in self._messages:
            raise Unfit(f"the session has two messages {message.id}", "message.id")
        self._messages.add(message.id)
        self._put(b"m", message)
        self.counts = msgspec.structs.replace(self.counts, messages=self.counts.messages + 1)

    def add_attachment(self, digest: str, upload: Upload, read: Callable[[str], bytes]) -> None:
        """Before the message that refers to it. What has come before is not read again."""
        where = "" if self._session is None else self._session.container_id
        if (where, digest) in self._attached:
            return
        body = None if digest in self._bodies else read(digest)
        if body is not None:
            self._bodies[digest] = len(body)
        size = self._bodies[digest]
        file = _File(digest=digest, size=size, media_type=upload.media_type, name=upload.name, has_body=body is not None)
        self._put(b"f", file)
        if body is not None:
            self.size += size
            self._file.write(body)
        self._attached.add((where, digest))

    def check(self) -> None:
        """To be asked when all is there."""
        pairs = set(self._pairs())
        for image in self.images.values():
            # One of its own: else it would name a session that somebody else has here.
            if (image.session_id, image.image_id) not in pairs:
                raise Unfit(f"the default session {image.session_id} of {image.image_id} is not there", "image.sessionId")

    def load(self, renamed: Renamed) -> Iterator[Carried]:
        """All of it, from the beginning, each time."""
        session_id = SessionId("")
        messages: list[Message] = []
        turns: list[Turn] = []
        for record in self._records():
            if messages or turns:
                if isinstance(record, Image | Session) or len(messages) + len(turns) >= TOGETHER:
                    yield Said(tuple(messages), tuple(turns))
                    messages, turns = [], []
            match record:
                case Image():
                    yield renamed.image(record)
                case Session():
                    session_id = record.session_id
                    yield renamed.session(record)
                case Attached():
                    yield record
                case Turn():
                    turns.append(_turned(record, renamed.turn_id(session_id, record.turn_id)))
                case message:
                    known = message.turn_id
                    turn_id = None if known is None else renamed.turn_id(session_id, known)
                    messages.append(message if turn_id == known else msgspec.structs.replace(message, turn_id=turn_id))
        if messages or turns:
            yield Said(tuple(messages), tuple(turns))

    def arrivals(self, renamed: Renamed) -> Iterator[Image | Session]:
        """The images, then the sessions besides their default ones, as they are written."""
        yield from map(renamed.image, self.images.values())
        default = {image.session_id for image in self.images.values()}
        for record in self._records():
            if isinstance(record, Session) and record.session_id not in default:
                yield renamed.session(record)

    def _pairs(self) -> Iterator[tuple[str, str]]:
        return ((one.session_id, one.image_id) for one in self._records() if isinstance(one, Session))

    def _put(self, kind: bytes, record: object) -> None:
        body = _encode(record)
        self.size += len(body)
        self._file.write(kind + len(body).to_bytes(8, "big") + body)

    def _records(self) -> Iterator[Image | Session | Message | Turn | Attached]:
        self._file.seek(0)
        while head := self._file.read(9):
            record = _KINDS[head[:1]].decode(self._file.read(int.from_bytes(head[1:], "big")))
            if isinstance(record, _File):
                body = self._file.read(record.size) if record.has_body else None
                yield Attached(record.digest, record.size, Upload(media_type=record.media_type, name=record.name), body)
            else:
                yield record


def _turned(turn: Turn, turn_id: TurnId) -> Turn:
    return turn if turn.turn_id == turn_id else msgspec.structs.replace(turn, turn_id=turn_id)
