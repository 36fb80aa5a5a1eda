"""Spool — validated records of an import, kept on the disk until all of the import is validated.

A whole account does not fit in memory, and the database's one writer must not wait for archives to be unpacked. So the checked
records are written to a file of our own. It is written by the process that reads an import, and read by the server
(`agentvm.sessions.staged`), which trusts neither: each record is a kind, a length and JSON, within `agentvm.sessions.bounds`.
"""

import tempfile
from collections.abc import Callable
from typing import BinaryIO

import msgspec

from agentvm.errors.archive import ArchiveTooLarge
from agentvm.model.base import Record, record_from
from agentvm.model.ids import check_container_id
from agentvm.model.image import Image
from agentvm.model.memory import ContainerMemory
from agentvm.model.message import Message
from agentvm.model.session import Session
from agentvm.model.turn import Turn
from agentvm.sessions import bounds
from agentvm.sessions.archive import Counts
from agentvm.sessions.line import FileLine, Unfit
from agentvm.storage.attachments import Upload
from agentvm.storage.carry import ContainerItem

IMAGE, SESSION, TURN, MESSAGE, FILE, CHANGE, ITEM = b"i", b"s", b"t", b"m", b"f", b"c", b"k"
LENGTH_BYTES = 8
HEAD_BYTES = 1 + LENGTH_BYTES


class SpooledFile(Record):
    """An attachment on the spool; its bytes follow, if it is the first with that digest."""

    digest: str
    size: int
    media_type: str
    name: str | None = None
    has_body: bool = False


class SpooledChange(FileLine):
    """A change of a file of the session; its bytes follow, if they are the first with that digest."""

    has_body: bool = False


_encode = msgspec.json.Encoder().encode


class Heads:
    """How much the images and sessions of one import hold in memory."""

    def __init__(self) -> None:
        self._bytes = self._values = 0

    def add(self, body: bytes) -> None:
        """`ArchiveTooLarge` when it is too much."""
        self._bytes += len(body)
        self._values += bounds.count_values(body, bounds.MAX_HEAD_VALUES)
        if self._bytes > bounds.MAX_HEAD_BYTES or self._values > bounds.MAX_HEAD_VALUES:
            raise ArchiveTooLarge(
                f"Its images and sessions have more than {bounds.MAX_HEAD_BYTES:,} bytes without their messages; "
                "export the containers one by one"
            )


class Spool:
    """Accepts an image, then its sessions, each with its messages. `Unfit` for records that do not fit together."""

    def __init__(self, file: BinaryIO | None = None) -> None:
        self.file: BinaryIO = tempfile.TemporaryFile() if file is None else file
        self.images: dict[str, Image] = {}
        self.counts = Counts()
        self.size = 0
        self._sessions: set[str] = set()
        self._with_default: set[str] = set()
        self._heads = Heads()
        self._session: Session | None = None
        self._session_bytes = 0
        self._attached: set[tuple[str, str]] = set()
        self._bodies: dict[str, int] = {}
        self._changes = 0
        self._messages: set[str] = set()
        self._turns: set[str] = set()
        self._client_keys: set[str] = set()

    def __enter__(self) -> "Spool":
        return self

    def __exit__(self, *details: object) -> None:
        self.file.close()

    def add_image(self, image: Image) -> None:
        check_container_id(image.container_id)
        if image.image_id in self.images:
            raise Unfit(f"there are two images {image.image_id}", "image.imageId")
        if len(self.images) >= bounds.MAX_SESSIONS:
            raise ArchiveTooLarge(f"There are more than {bounds.MAX_SESSIONS:,} images; nothing was written")
        self.images[image.image_id] = image
        self._heads.add(self._put(IMAGE, image))
        self.counts = msgspec.structs.replace(self.counts, images=self.counts.images + 1)

    def add_session(self, session: Session) -> None:
        if session.session_id in self._sessions:
            raise Unfit(f"there are two sessions {session.session_id}", "session.sessionId")
        if session.image_id not in self.images:
            raise Unfit(f"its image {session.image_id} is not there", "session.imageId")
        if self.images[session.image_id].session_id == session.session_id:
            self._with_default.add(session.image_id)
        self._sessions.add(session.session_id)
        self._session, self._session_bytes = session, 0
        self._messages, self._turns, self._client_keys = set(), set(), set()
        self._heads.add(self._put(SESSION, session))
        self.counts = msgspec.structs.replace(self.counts, sessions=self.counts.sessions + 1)

    def add_turn(self, turn: Turn) -> None:
        if turn.turn_id in self._turns:
            raise Unfit(f"the session has two turns {turn.turn_id}", "turn.turnId")
        if turn.client_key is not None and turn.client_key in self._client_keys:
            raise Unfit("the session has two turns with that clientKey", "turn.clientKey")
        if len(self._turns) >= bounds.MAX_SESSION_TURNS:
            raise ArchiveTooLarge(f"A session has more than {bounds.MAX_SESSION_TURNS:,} turns; nothing was written")
        self._turns.add(turn.turn_id)
        self._client_keys.add(turn.client_key or "")
        self._put(TURN, turn)
        self.counts = msgspec.structs.replace(self.counts, turns=self.counts.turns + 1)

    def add_message(self, message: Message) -> None:
        if message.id in self._messages:
            raise Unfit(f"the session has two messages {message.id}", "message.id")
        if len(self._messages) >= bounds.MAX_SESSION_MESSAGES:
            raise ArchiveTooLarge(f"A session has more than {bounds.MAX_SESSION_MESSAGES:,} messages; nothing was written")
        self._messages.add(message.id)
        self._session_bytes += len(self._put(MESSAGE, message))
        if self._session_bytes > bounds.MAX_SESSION_BYTES:
            raise ArchiveTooLarge(f"A session has more than {bounds.MAX_SESSION_BYTES:,} bytes; nothing was written")
        self.counts = msgspec.structs.replace(self.counts, messages=self.counts.messages + 1)

    def add_attachment(self, digest: str, upload: Upload, read: Callable[[str], bytes]) -> None:
        """Before the message that refers to it. Earlier records are not read again."""
        where = "" if self._session is None else self._session.container_id
        if (where, digest) in self._attached:
            return
        if len(self._attached) >= bounds.MAX_ATTACHMENTS:
            raise ArchiveTooLarge(f"There are more than {bounds.MAX_ATTACHMENTS:,} attachments; nothing was written")
        body = None if digest in self._bodies else read(digest)
        if body is not None:
            self._bodies[digest] = len(body)
        size = self._bodies[digest]
        file = SpooledFile(digest=digest, size=size, media_type=upload.media_type, name=upload.name, has_body=body is not None)
        self._put(FILE, file)
        if body is not None:
            self.size += size
            self.file.write(body)
        self._attached.add((where, digest))

    def add_change(self, file: FileLine, read: Callable[[str], bytes]) -> None:
        """A change of a file, behind the messages of its session."""
        if file.after is not None and file.after not in self._messages:
            raise Unfit(f"the session has no message {file.after}", "file.after")
        self._changes += 1
        if self._changes > bounds.MAX_FILE_CHANGES:
            raise ArchiveTooLarge(f"There are more than {bounds.MAX_FILE_CHANGES:,} changes of files; nothing was written")
        body = None if file.blob is None or file.blob in self._bodies else read(file.blob)
        if file.blob is not None and body is not None:
            self._bodies[file.blob] = len(body)
        if file.blob is not None and self._bodies[file.blob] != file.size:
            raise Unfit("the size is not that of the bytes", "file.size")
        self._put(CHANGE, record_from(SpooledChange, file, has_body=body is not None))
        if body is not None:
            self.size += len(body)
            self.file.write(body)

    def add_item(self, item: ContainerItem, body: bytes) -> None:
        """A memory, schedule or trigger as its line, behind all sessions."""
        if not isinstance(item, ContainerMemory):
            image = self.images.get(item.image_id)
            if image is None or image.container_id != item.container_id:
                raise Unfit(f"its image {item.image_id} is not there", "imageId")
            if item.session_id is not None and item.session_id not in self._sessions:
                raise Unfit(f"its session {item.session_id} is not there", "sessionId")
        self._heads.add(body)
        self._write(ITEM, body)

    def check(self) -> None:
        """To be asked when all is there."""
        for image in self.images.values():
            # One of its own: else it would name a session that somebody else has here.
            if image.image_id not in self._with_default:
                raise Unfit(f"the default session {image.session_id} of {image.image_id} is not there", "image.sessionId")

    def _put(self, kind: bytes, record: object) -> bytes:
        body = _encode(record)
        if len(body) > bounds.MAX_MESSAGE_BYTES:
            raise ArchiveTooLarge(f"A message has more than {bounds.MAX_MESSAGE_BYTES:,} bytes; nothing was written")
        bounds.count_values(body)
        self._write(kind, body)
        return body

    def _write(self, kind: bytes, body: bytes) -> None:
        self.size += len(body)
        self.file.write(kind + len(body).to_bytes(LENGTH_BYTES, "big") + body)
