"""Staged — reads the records of a spool one at a time, within bounds, without trusting their writer.

The spool was written by a process that had an untrusted archive in its hands. So none of it is trusted: lengths, counts, ids
and digests are checked here again, and values beyond the bounds are never built.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple

import msgspec

from agentvm.errors import InvalidInput
from agentvm.errors.archive import ArchiveInvalid
from agentvm.model.attachment import references_of
from agentvm.model.base import record_from
from agentvm.model.definition import snapshot_of
from agentvm.model.ids import ContainerId, MessageId, SessionId, check_container_id
from agentvm.model.image import Image
from agentvm.model.memory import ContainerMemory
from agentvm.model.message import Message
from agentvm.model.session import Session
from agentvm.model.session_file import FileChange, FileDelta
from agentvm.model.turn import Turn
from agentvm.sessions import bounds, line
from agentvm.sessions.archive import BLOB_MAX_BYTES, Counts
from agentvm.sessions.container_lines import to_item
from agentvm.sessions.placement import Placement
from agentvm.sessions.spool import (
    CHANGE,
    FILE,
    HEAD_BYTES,
    IMAGE,
    ITEM,
    MESSAGE,
    SESSION,
    TURN,
    Heads,
    SpooledChange,
    SpooledFile,
)
from agentvm.storage.attachments import Upload
from agentvm.storage.carry import Attached, Carried, ChangedFile, ContainerItem, Continued, Present, SessionContent

BATCH_MAX = 256
"""Messages and turns in one batch."""
BATCH_MAX_BYTES = 1024 * 1024
"""Bytes of one batch, unless one message has more."""

_images = msgspec.json.Decoder(Image)
_sessions = msgspec.json.Decoder(Session)
_turns = msgspec.json.Decoder(Turn)
_messages: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)
_files = msgspec.json.Decoder(SpooledFile)
_changes = msgspec.json.Decoder(SpooledChange)


class _Named(msgspec.Struct):
    id: str


_named = msgspec.json.Decoder(_Named)


class _Head(NamedTuple):
    """A record's kind, where its JSON begins, and how long that is."""

    kind: bytes
    at: int
    size: int


@dataclass(frozen=True, slots=True)
class StagedImage:
    container_id: ContainerId
    session_id: SessionId


@dataclass(slots=True)
class StagedSession:
    """The content of a session on the spool; `at` is the offset of its records."""

    image_id: str
    container_id: ContainerId
    at: int
    messages: int = 0
    turns: int = 0
    size: int = 0


@dataclass(slots=True)
class _Batch:
    """Messages and turns on their way to the writer."""

    messages: list[Message] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    size: int = 0

    @property
    def is_full(self) -> bool:
        return len(self.messages) + len(self.turns) >= BATCH_MAX or self.size >= BATCH_MAX_BYTES

    def take(self) -> Iterator[SessionContent]:
        if self.messages or self.turns:
            yield SessionContent(tuple(self.messages), tuple(self.turns))
        self.messages, self.turns, self.size = [], [], 0


def damaged(why: str) -> ArchiveInvalid:
    return ArchiveInvalid(f"The import is refused, and nothing was written: its records are inconsistent: {why}")


class Staged:
    """The import on a spool. `ArchiveInvalid` for an invalid spool.

    Slow: to be created and used in a thread.
    """

    def __init__(self, file: BinaryIO, *, blobs: int = 0) -> None:
        self._file = file
        self._end = file.seek(0, os.SEEK_END)
        self.images: dict[str, StagedImage] = {}
        self.sessions: dict[str, StagedSession] = {}
        self.items: list[ContainerItem] = []
        """Memories, schedules and triggers."""
        self.counts = Counts()
        self.size = 0
        self._files: dict[tuple[ContainerId, str], SpooledFile] = {}
        self._changes = 0
        self._bodies: dict[str, int] = {}
        """Where the bytes of each attachment begin."""
        try:
            self._scan()
        except (line.Unfit, InvalidInput, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise damaged(str(error)) from None
        self.counts = Counts(
            images=len(self.images),
            sessions=len(self.sessions),
            messages=sum(session.messages for session in self.sessions.values()),
            turns=sum(session.turns for session in self.sessions.values()),
            blobs=blobs,
        )

    @property
    def containers(self) -> dict[ContainerId, int]:
        """How many images go where."""
        counts: dict[ContainerId, int] = {}
        for image in self.images.values():
            counts[image.container_id] = counts.get(image.container_id, 0) + 1
        return counts

    def message_id(self, session_id: str, number: int) -> str | None:
        """The id of a session's message of that number, from 1."""
        if not 1 <= number <= self.sessions[session_id].messages:
            return None
        for head in self._heads(self.sessions[session_id].at):
            number -= head.kind == MESSAGE
            if not number:
                return _named.decode(self._body(head)).id
        return None

    def size_behind(self, session_id: str, count: int) -> int:
        """Bytes of a session without the messages and turns that are here already."""
        size = 0
        for head in self._heads(self.sessions[session_id].at):
            if head.kind in (IMAGE, SESSION, ITEM):
                break
            if head.kind == MESSAGE:
                count -= 1
                size += head.size if count < 0 else 0
            elif head.kind == FILE and count <= 0:
                size += _files.decode(self._body(head)).size
        return size

    def load(self, placement: Placement) -> Iterator[Carried]:
        """All that is new, from the beginning, each time."""
        try:
            yield from self._load(placement)
        except (line.Unfit, InvalidInput, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise damaged(str(error)) from None

    def arrivals(self, placement: Placement) -> Iterator[Image | Session]:
        """The images, then the sessions besides their default ones, as far as they are new."""
        default = {image.session_id for image in self.images.values()}
        for head in self._heads(0):
            if head.kind == IMAGE and (image := self._image(head)).image_id not in placement.present:
                yield placement.image(image)
        for head in self._heads(0):
            if head.kind == SESSION and (session := self._session(head)).session_id not in placement.known:
                if session.session_id not in default or session.image_id in placement.present:
                    yield placement.session(session)

    def _load(self, placement: Placement) -> Iterator[Carried]:
        image: Carried | None = None
        session: Session | None = None
        batch, image_count, attachments, old = _Batch(), 0, set[tuple[str, str]](), set[str | None]()
        for head in self._heads(0):
            if head.kind in (IMAGE, SESSION, ITEM) or batch.is_full:
                yield from batch.take()
            if head.kind == ITEM:
                break
            if head.kind == IMAGE:
                read = self._image(head)
                placed = placement.image(read)
                image = Present(placed) if read.image_id in placement.present else placed
            elif head.kind == SESSION:
                session = self._session(head)
                if session.session_id in placement.complete:
                    session = None
                    continue
                if image is not None:
                    # With the first of its sessions that has something new.
                    yield image
                    image = None
                begun = placement.known.get(session.session_id)
                image_count = 0 if begun is None else begun.messages
                # Changes of files that are of no message are there, too.
                old = set() if begun is None else {None}
                yield self._begun(session, placement, image_count)
            elif session is None:
                continue
            elif head.kind == TURN:
                batch.turns.append(placement.turn(session.session_id, self._turn(head)))
                batch.size += head.size
            elif head.kind == CHANGE:
                yield from batch.take()
                yield from self._changed(head, old, attachments)
            elif head.kind == MESSAGE:
                image_count -= 1
                if image_count >= 0:
                    old.add(_named.decode(self._body(head)).id)
                    continue
                message = placement.message(session.session_id, self._message(head))
                for attached in self._attached(session.container_id, message, attachments):
                    yield from batch.take()
                    yield attached
                batch.messages.append(message)
                batch.size += head.size
        yield from batch.take()

    def _begun(self, session: Session, placement: Placement, existing: int) -> Carried:
        placed = placement.session(session)
        if session.session_id not in placement.known:
            return placed
        last = self.message_id(session.session_id, existing)
        return Continued(placed, None if last is None else MessageId(last))

    def _attached(self, container_id: ContainerId, message: Message, attachments: set[tuple[str, str]]) -> Iterator[Attached]:
        """Yields the attachments of a message before its first use; with the bytes for the first container."""
        for digest in references_of(message):
            file = self._files.get((container_id, digest))
            if file is None or (container_id, digest) in attachments:
                continue
            body = None if ("", digest) in attachments else self._bytes_of(file.digest, file.size)
            attachments |= {("", digest), (container_id, digest)}
            yield Attached(digest, file.size, Upload(media_type=file.media_type, name=file.name), body)

    def _changed(self, head: _Head, old: set[str | None], placed: set[tuple[str, str]]) -> Iterator[ChangedFile]:
        """Yields a change of a file, unless the message that it came with is here already."""
        file = line.check_file(_changes.decode(self._body(head)))
        if file.after in old:
            return
        change = record_from(FileChange, file, digest=file.blob)
        body = None
        if file.blob is not None and ("", file.blob) not in placed:
            placed.add(("", file.blob))
            body = self._bytes_of(file.blob, file.size)
        yield ChangedFile(FileDelta(message_id=file.after, changes=(change,), at=file.at), body)

    def _bytes_of(self, digest: str, size: int) -> bytes:
        body = self._read(self._bodies[digest], size)
        if line.digest_of(body) != digest:
            raise line.Unfit(f"the bytes of {digest} are others")
        return body

    def _scan(self) -> None:
        heads, session = Heads(), None
        for head in self._heads(0):
            if head.kind == IMAGE:
                heads.add(self._body(head))
                self._add_image(self._image(head))
                session = None
            elif head.kind == SESSION:
                heads.add(self._body(head))
                session = self._add_session(self._session(head), head.at + head.size)
            elif head.kind == ITEM:
                heads.add(self._body(head))
                self._add_item(to_item(*line.read_line(self._body(head))))
            elif session is None:
                raise line.Unfit("a message stands before its session")
            elif head.kind == FILE:
                self._add_file(session, head)
            elif head.kind == CHANGE:
                self._add_change(session, head)
            else:
                session.messages += head.kind == MESSAGE
                session.turns += head.kind == TURN
                session.size += head.size
                if max(session.messages, session.turns) > bounds.MAX_SESSION_MESSAGES:
                    raise line.Unfit("a session has too many messages")
            self.size += head.size

    def _add_image(self, image: Image) -> None:
        check_container_id(image.container_id)
        if image.image_id in self.images or len(self.images) >= bounds.MAX_SESSIONS:
            raise line.Unfit("an image is there twice, or there are too many")
        if snapshot_of(image.definition)[0] != image.digest:
            raise line.Unfit("the digest of an image is not that of its definition")
        if image.config.api_key is not None:
            # It would be stored as it is; keys are sealed when an image is built.
            raise line.Unfit("the config of an image has an apiKey, which no archive has")
        self.images[image.image_id] = StagedImage(image.container_id, image.session_id)

    def _add_session(self, session: Session, at: int) -> StagedSession:
        image = self.images.get(session.image_id)
        if image is None or image.container_id != session.container_id:
            raise line.Unfit("a session is not where its image is")
        if session.session_id in self.sessions or len(self.sessions) >= bounds.MAX_SESSIONS:
            raise line.Unfit("a session is there twice, or there are too many")
        staged = self.sessions[session.session_id] = StagedSession(session.image_id, image.container_id, at)
        return staged

    def _add_item(self, item: ContainerItem) -> None:
        if not isinstance(item, ContainerMemory):
            image = self.images.get(item.image_id)
            if image is None or image.container_id != item.container_id:
                raise line.Unfit("a schedule is not where its image is")
        self.items.append(item)

    def _add_file(self, session: StagedSession, head: _Head) -> None:
        file = _files.decode(self._body(head))
        if not 0 < file.size <= BLOB_MAX_BYTES or len(self._files) >= bounds.MAX_ATTACHMENTS:
            raise line.Unfit("an attachment is too large, or there are too many")
        if file.has_body:
            self._bodies.setdefault(file.digest, head.at + head.size)
            self.size += file.size
            session.size += file.size
        elif file.digest not in self._bodies:
            raise line.Unfit("an attachment has no bytes")
        self._files[session.container_id, file.digest] = file

    def _add_change(self, session: StagedSession, head: _Head) -> None:
        change = line.check_file(_changes.decode(self._body(head)))
        self._changes += 1
        if change.size > BLOB_MAX_BYTES or self._changes > bounds.MAX_FILE_CHANGES:
            raise line.Unfit("a file is too large, or there are too many changes")
        if change.blob is not None and change.has_body:
            self._bodies.setdefault(change.blob, head.at + head.size)
            self.size += change.size
            session.size += change.size
        elif change.blob is not None and change.blob not in self._bodies:
            raise line.Unfit("a file has no bytes")

    def _image(self, head: _Head) -> Image:
        return line.check_image(_images.decode(self._body(head)))

    def _session(self, head: _Head) -> Session:
        return line.check_session(_sessions.decode(self._body(head)))

    def _turn(self, head: _Head) -> Turn:
        turn = line.check_turn(_turns.decode(self._body(head)))
        if turn.user_id is not None or turn.key_id is not None:
            raise line.Unfit("a turn names a user or a key")
        return turn

    def _message(self, head: _Head) -> Message:
        return line.check_message(_messages.decode(self._body(head)))

    def _heads(self, at: int) -> Iterator[_Head]:
        """The records from there on, without their JSON."""
        while at < self._end:
            raw = self._read(at, HEAD_BYTES)
            head = _Head(raw[:1], at + HEAD_BYTES, int.from_bytes(raw[1:], "big"))
            if head.kind not in (IMAGE, SESSION, TURN, MESSAGE, FILE, CHANGE, ITEM) or head.size > bounds.MAX_MESSAGE_BYTES:
                raise line.Unfit("a record is too long, or of no kind")
            yield head
            at = head.at + head.size
            if head.kind in (FILE, CHANGE):
                file = (_files if head.kind == FILE else _changes).decode(self._body(head))
                at += max(0, file.size) if file.has_body else 0

    def _body(self, head: _Head) -> bytes:
        body = self._read(head.at, head.size)
        bounds.count_values(body)
        return body

    def _read(self, at: int, size: int) -> bytes:
        self._file.seek(at)
        body = self._file.read(size)
        if len(body) < size:
            raise line.Unfit("it is cut off")
        return body
