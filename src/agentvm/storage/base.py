"""Store — what the rest of AgentVM may ask of a database.

A repository is obtained *for a scope*: `store.tenant(t)` sees one tenant, `store.tenant(t).container(c)` one container
of it. There is no other way in, so a query that forgets whose data it touches cannot be written.

Every write is durable when its call returns (committed, synced); writes that wait together share one commit.
An append never reads or rewrites what is already there. A failed write raises `StoreFailed` and leaves nothing behind.
Conformance: `agentvm.testing.conformance.store`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from agentvm.model.container import Container
from agentvm.model.exchange import Extent
from agentvm.model.ids import ContainerId, ImageId, MessageId, RewindId, SessionId, TenantId, TurnId
from agentvm.model.image import Image
from agentvm.model.ledger import AskedCall, LedgerEntry
from agentvm.model.message import Message
from agentvm.model.refused import RefusedPart
from agentvm.model.session import Session, Summary
from agentvm.model.turn import Turn
from agentvm.storage.accounts import Accounts, Directory
from agentvm.storage.attachments import AttachmentStore
from agentvm.storage.carry import Carrier
from agentvm.storage.definitions import DefinitionStore
from agentvm.storage.drafts import DraftStore
from agentvm.storage.erasing import Erasing
from agentvm.storage.resources import ResourceStore
from agentvm.storage.retention import RetentionStore
from agentvm.storage.sessions import SessionStore
from agentvm.storage.settings import Change, SettingsStore


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChunk:
    """Events `first_seq` to `last_seq` of a session, as `agentvm.runtime.chunk` packs them."""

    first_seq: int
    last_seq: int
    made_at: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Rewinding:
    """Takes those messages out of the history. They are kept, and can be read by those who ask for them."""

    rewind_id: RewindId
    message_ids: Sequence[MessageId]
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """What a model needs to know of a session: the newest summary, and what it does not cover, in the order it was stored.

    All of it is one state of the session. `running` are the turns that have not ended. `truncated` when there are messages
    beyond those that the reading allowed. `refused` is what providers do not take of it.
    """

    summary: Summary | None = None
    messages: tuple[Message, ...] = ()
    running: frozenset[TurnId] = frozenset()
    truncated: bool = False
    refused: frozenset[RefusedPart] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How much of a session is read into memory. A message that does not fit is never read, nor is one beyond it.

    Messages from `current` on, which the running turn answers, may have `current_bytes` in all; with the older ones before
    them `max_bytes`. Without `newest` the oldest messages come first, for those who sum them up.
    """

    max_bytes: int
    current: MessageId | None = None
    current_bytes: int = 0
    newest: bool = True
    summary: bool = True
    """Whether the newest summary stands for what it covers; else what was said is read in its place."""


WHOLE = Reading(max_bytes=2**62)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionWrite:
    """What one commit adds to one session: messages, turns, the part of the log that is complete, and what they cost.

    What `rewind` takes back goes before the messages come. Without messages, turns, chunk, ledger and rewind no row of the
    session or of its image changes, and a session that is gone is reported all the same.

    `ledger` is entered under the tenant of the write, whatever an entry says; an entry whose key is there is left alone.
    """

    tenant_id: TenantId
    container_id: ContainerId
    session_id: SessionId
    now: int
    messages: Sequence[Message] = ()
    turns: Sequence[Turn] = ()
    chunk: LogChunk | None = None
    ledger: Sequence[LedgerEntry] = ()
    asked: Sequence[AskedCall] = ()
    """Calls that are about to be made."""
    answered: Sequence[str] = ()
    """Keys of calls that were asked and need not be remembered any more."""
    rewind: Rewinding | None = None

    @property
    def changes_no_session(self) -> bool:
        """Whether nothing is added but calls."""
        return not (self.messages or self.turns or self.chunk or self.ledger or self.rewind)

    @property
    def is_empty(self) -> bool:
        """Whether it only asks if the session is there: what happened is in the journal's entry alone."""
        return self.changes_no_session and not (self.asked or self.answered)


@dataclass(frozen=True, slots=True)
class Place:
    """How far a reader has read a session: the last event it has for certain. None: up to the end of the session's log."""

    seq: int | None
    saved_at: int


class ContainerStore(Protocol):
    """One container of one tenant."""

    attachments: AttachmentStore
    """The files that were uploaded to it."""

    async def get(self) -> Container | None: ...

    async def create(self, now: int) -> bool:
        """Get-or-create; True when this call created it. `ContainerErasing` while one of the same name is being erased."""

    async def add_image(self, image: Image, default_session: Session) -> None:
        """The image, its default session and (once per digest) its snapshot, in one commit.

        `ResourceNotFound` when a version of its lock is gone meanwhile. What an image is locked to cannot be deleted.
        """

    async def get_image(self, image_id: ImageId) -> Image | None: ...

    async def list_images(self) -> tuple[Image, ...]:
        """Newest first."""

    async def update_image(self, image_id: ImageId, *, name: str | None, description: str | None, now: int) -> Image | None:
        """Changes what is not None; returns the image as it is now, or None if there is none."""

    async def rebuild_image(self, image: Image) -> bool:
        """Puts its definition, config, source and lock in place of those that are stored; False when it is gone."""

    async def delete_image(self, image_id: ImageId) -> bool:
        """With its sessions, messages and turns: hidden by one commit, gone in small ones. True when it was there."""

    async def add_session(self, session: Session, messages: Sequence[Message] = ()) -> None:
        """With what was said in it so far, in one commit. `ImageNotFound` when its image is gone."""

    async def get_session(self, session_id: SessionId) -> Session | None: ...

    async def list_sessions(self, image_id: ImageId) -> tuple[Session, ...]:
        """Oldest first, so that the default session leads."""

    async def set_title(self, session_id: SessionId, title: str | None, now: int) -> Session | None: ...

    async def list_messages(self, session_id: SessionId) -> tuple[Message, ...]:
        """In the order they were appended."""

    async def list_recent_messages(
        self, session_id: SessionId, max_bytes: int, *, limit: int | None = None, strict: bool = False
    ) -> tuple[tuple[Message, ...], bool]:
        """The newest messages whose stored sizes add up to at most `max_bytes`, oldest first, and whether some were left out.

        At most `limit`, if one is given. The newest message is always returned, also if it alone is larger, unless `strict` is
        given. Messages that do not fit are never read into memory.
        """

    def log(self, session_id: SessionId) -> "LogStore": ...


class LogStore(Protocol):
    """What happened in one session; `Store.commit` adds to it for many at once."""

    async def range(self) -> tuple[int, int]:
        """The first and the last seq in the log; (1, 0) when it is empty. `SessionNotFound` if the session is gone."""

    async def read(self, after: int, limit: int) -> tuple[LogChunk, ...]:
        """The next chunks with an event after that seq, in order."""

    async def get_messages(self, message_ids: Sequence[str]) -> tuple[Message, ...]:
        """Those of the messages that are there, also if they were taken back."""

    async def message_sizes(self, message_ids: Sequence[str]) -> dict[str, int]:
        """Stored bytes of those of the messages that are there."""

    async def record(self, *, messages: Sequence[Message] = (), turns: Sequence[Turn] = (), now: int) -> None:
        """Appends messages (a message id that is already there is left alone) and inserts or finishes turns, in one commit.

        Bumps `updated_at` of the session and of its image. A session that is gone takes nothing: `SessionNotFound`.
        """

    async def find_turn(self, client_key: str) -> Turn | None:
        """The turn that was accepted under the sender's key."""

    async def list_turns(self) -> tuple[Turn, ...]:
        """In the order they were accepted."""

    async def last_before(self, at: int) -> int:
        """The last seq of the chunks that were made before that moment; 0 for none. What was told since comes after it."""

    async def set_quarantine(self, reason: str | None, now: int) -> Session | None:
        """Sets the session aside, or releases it for None; as it is now, or None when it is gone."""

    async def recall(self, reading: Reading = WHOLE) -> Recalled:
        """Nothing for a session that is gone. Without a summary, what was said and stands, as much as `reading` allows."""

    async def list_turn_messages(self, turn: Turn, max_bytes: int) -> tuple[tuple[Message, ...], bool]:
        """The messages of that turn alone, in the order they were appended, and whether some were left out.

        As many as have `max_bytes` together, the oldest first; one that does not fit is never read into memory.
        """

    async def add_refused(self, parts: Sequence[RefusedPart], provider: str, now: int) -> None:
        """Notes what a provider does not take of the session, for as long as the session is there. Noting it twice is once."""

    async def add_summary(self, summary: Summary, covered: Extent, recalled: Recalled) -> bool:
        """Of that part of what was recalled. A rewind that takes back something it covers removes it in its own commit.

        False, and nothing is stored, when something of it was taken back meanwhile, another summary has come first, or the
        session is deleted or gone.
        """


class TenantStore(Protocol):
    """One tenant: finds in which of its containers a thing lives, and remembers how far its readers have read."""

    def container(self, container_id: ContainerId) -> ContainerStore: ...

    async def list_containers(self) -> tuple[ContainerId, ...]:
        """Oldest first."""

    async def page_containers(self, cursor: str | None, limit: int) -> tuple[tuple[ContainerId, ...], str | None]:
        """A page of them, oldest first, and the cursor of the next page if there is one. `InvalidInput` for another cursor."""

    async def find_image(self, image_id: ImageId) -> ContainerId | None: ...

    async def find_session(self, session_id: SessionId) -> ContainerId | None: ...

    async def find_turn(self, turn_id: TurnId) -> Turn | None: ...

    def sessions(self, containers: Sequence[ContainerId] | None) -> SessionStore:
        """The sessions of these containers; None for all of the tenant's."""

    def drafts(self, author: str, containers: Sequence[ContainerId] | None) -> DraftStore:
        """What an author has not sent in these containers; None for all of the tenant's. '' is nobody in particular."""

    def retention(self) -> RetentionStore:
        """What of all its containers is too old."""

    async def save_reader(self, client_id: str, places: Mapping[SessionId, Place]) -> None:
        """In place of what was saved of the reader before. Sessions that are gone are passed over."""

    async def take_reader(self, client_id: str) -> dict[SessionId, Place]:
        """What was saved of the reader, with every `seq` known; it is forgotten in the same commit."""


class Store(Protocol):
    """A whole database. Opened at start-up, closed at shutdown."""

    directory: Directory
    erasing: Erasing
    waiting: Callable[[], int]
    """How many reads and writes wait for others to be done."""

    def tenant(self, tenant_id: TenantId) -> TenantStore: ...

    def accounts(self, tenant_id: TenantId) -> Accounts: ...

    def resources(self, tenant_id: TenantId) -> ResourceStore: ...

    def definitions(self, tenant_id: TenantId) -> DefinitionStore: ...

    def carrier(self, tenant_id: TenantId) -> Carrier: ...

    def settings(self, tenant_id: TenantId | None) -> SettingsStore:
        """What was changed of a tenant's settings; None for those of the server itself."""

    async def read_settings(self) -> tuple[tuple[TenantId | None, Change], ...]:
        """Every change of every scope but deleted tenants', each scope's in order. For the start."""

    async def commit(self, writes: Sequence[SessionWrite], *, entry: bytes | None = None, forget: int = 0) -> "Committed":
        """Everything in one transaction, each session by itself: one that is gone takes nothing and harms no other.

        `WritesRefused` names the sessions whose writes contradict what is there; then nothing was stored, and the others may
        be tried again without them.

        Only its ledger entries are kept all the same, and its `answered` calls forgotten: what was used is owed, also when the
        image is deleted meanwhile.
        `entry` is appended to the journal; entries before `forget` are dropped.
        """

    async def probe(self) -> None:
        """Makes the disk take something that leaves no trace; raises as a commit would."""

    async def read_journal(self, after: int = 0, max_bytes: int | None = None) -> tuple[tuple[int, bytes], ...]:
        """What the journal still holds after that entry, in order: the events that were told but are in no chunk.

        With `max_bytes` the next entries that have no more together; at least one, if there is one.
        """

    async def list_unfinished(self) -> tuple[tuple[TenantId, Turn], ...]:
        """Turns that were accepted and have no end, in the order they were accepted."""

    async def list_asked(self) -> tuple[AskedCall, ...]:
        """Calls of every tenant that were asked, are not in the ledger, and belong to no open turn. For the start."""

    async def list_quarantined(self) -> tuple[tuple[TenantId, Session], ...]:
        """Sessions that are set aside."""

    async def collect(self, now: int, *, grace: int, attachment_grace: int | None = None) -> int:
        """Drops what nothing refers to any more: versions of resources that were deleted, binary parts, attachments.

        In two steps, so that nobody who is just about to refer to a thing loses it: a thing is noted when nothing refers to
        it, and dropped by a call at least `grace` ms later if still nothing does. Says how many were dropped: some at a time,
        so there may be more as long as it is not 0. Attachments have a grace of their own, `attachment_grace`: an upload that
        is yet to be sent survives it.
        """

    async def purge_sessions(self, deleted_before: int, *, limit: int = 100) -> tuple[tuple[TenantId, SessionId], ...]:
        """Drops sessions that were deleted until then, with all that was said in them; which, at most so many at a time."""

    async def tend_search(self, *, limit: int = 200) -> bool:
        """Does some of what keeps the search complete and quick. Whether there may be more to do.

        Asked for after a start, until there is no more, and now and then while messages are stored.
        """

    async def trim_log(self, made_before: int, most_bytes: int) -> int:
        """Drops older chunks, and the oldest beyond so many bytes, but never a session's newest; says how many.

        Places of readers that are as old go too.
        """


@dataclass(frozen=True, slots=True)
class Committed:
    """`entry` is the number the journal gave; `gone` are sessions that no longer exist."""

    entry: int
    gone: frozenset[SessionId]
