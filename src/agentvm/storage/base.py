"""Store — the records of the database's interface.

A repository is obtained *for a scope*: `store.tenant(t)` sees one tenant, `store.tenant(t).container(c)` one container of it.
There is no other way in, so a query that forgets whose data it touches cannot be written.

Every write is durable when its call returns (committed, synced); writes that wait together share one commit. An append never
reads or rewrites existing rows. A failed write raises `StoreFailed` and leaves nothing behind. Conformance:
`tests.conformance.store`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from agentvm.model.base import Record
from agentvm.model.ids import ContainerId, MessageId, RewindId, SessionId, TenantId, TurnId
from agentvm.model.ledger import LedgerEntry, SentCall
from agentvm.model.message import Message, is_foreign
from agentvm.model.placed_call import PlacedCall
from agentvm.model.program import ProgramChange
from agentvm.model.schedule import SourceRun
from agentvm.model.session import RefusedPart, Summary
from agentvm.model.session_file import FileDelta
from agentvm.model.turn import Turn
from agentvm.model.wait import WaitChange
from agentvm.model.webhook import Notice


class LogChunk(msgspec.Struct, frozen=True, kw_only=True):
    """Events `first_seq` to `last_seq` of a session, as `agentvm.runtime.chunk` packs them."""

    first_seq: int
    last_seq: int
    made_at: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Rewinding:
    """A rewind: takes messages out of the history. They are kept, and can be read on request."""

    rewind_id: RewindId
    message_ids: Sequence[MessageId]
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """The context of a model call: the newest summary of a session and the messages that it does not cover, in stored order.

    All of it is one state of the session. `running` are the turns that have not ended. `truncated` when there are messages
    beyond those that the reading allowed. `refused` are the parts that providers do not accept. `plain` when it is known that
    nothing in it is a file or untrusted text: then no caller has to look for either.
    """

    summary: Summary | None = None
    messages: tuple[Message, ...] = ()
    running: frozenset[TurnId] = frozenset()
    truncated: bool = False
    refused: frozenset[RefusedPart] = frozenset()
    plain: bool = False


def is_tainted(recalled: Recalled, last: MessageId | None = None) -> bool:
    """Returns whether untrusted text is in the summary, or in the messages up to and including `last`."""
    if recalled.summary is not None and recalled.summary.tainted:
        return True
    for message in recalled.messages:
        if is_foreign(message):
            return True
        if message.id == last:
            break
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingLimits:
    """How much of a session is read into memory. A message that does not fit is never read, nor is one beyond it.

    Messages from `current` on, which the running turn answers, may have `current_bytes` in all; with the older ones before
    them `max_bytes`. Without `newest` the oldest messages come first, for summaries.
    """

    max_bytes: int
    current: MessageId | None = None
    current_bytes: int = 0
    newest: bool = True
    summary: bool = True
    """Whether the newest summary replaces the messages it covers; otherwise these are read."""


WHOLE = ReadingLimits(max_bytes=2**62)


class SessionWrite(msgspec.Struct, frozen=True, kw_only=True):
    """The additions of one commit to one session: messages, turns, a complete part of the log, and their cost.

    The messages of `rewind` are removed before new ones are added. Without any of the other members but calls no row of the
    session or of its image changes, and a session that is gone is reported anyway.

    `ledger` is entered for the tenant of the write, regardless of the tenant in an entry; an entry with an existing key is
    ignored.
    """

    tenant_id: TenantId
    container_id: ContainerId
    session_id: SessionId
    now: int
    messages: Sequence[Message] = ()
    turns: Sequence[Turn] = ()
    chunk: LogChunk | None = None
    ledger: Sequence[LedgerEntry] = ()
    asked: Sequence[SentCall] = ()
    """Calls that are about to be made."""
    answered: Sequence[str] = ()
    """Keys of calls that were asked and need not be remembered any more."""
    rewind: Rewinding | None = None
    waits: Sequence[WaitChange] = ()
    """Calls that begin to wait, are answered or start, in order. With its first answer a turn is not parked any more."""
    programs: Sequence[ProgramChange] = ()
    """Calls of programs that have their results, and programs that have ended, in order."""
    placed: Sequence[PlacedCall] = ()
    """The reasons of calls that have their results."""

    files: Sequence[FileDelta] = ()
    """Changes of the session's files, in order; their bytes are stored already."""

    runs: Sequence[SourceRun] = ()
    """Runs of schedules and triggers that begin with a turn of this commit."""

    notices: Sequence[Notice] = ()
    """The events among them that webhooks receive; none for a tenant without webhooks."""

    @property
    def changes_no_session(self) -> bool:
        """Whether nothing is added but calls."""
        of_messages = self.messages or self.turns or self.chunk or self.ledger or self.rewind
        return not (of_messages or self.waits or self.programs or self.files or self.placed or self.runs)

    @property
    def is_empty(self) -> bool:
        """Whether the write only asks if the session exists: the events are in the journal's entry alone."""
        return self.changes_no_session and not (self.asked or self.answered or self.notices)


@dataclass(frozen=True, slots=True)
class ReaderPlace:
    """How far a reader has read a session: the last event it has for certain. None: up to the end of the session's log."""

    seq: int | None
    saved_at: int


@dataclass(frozen=True, slots=True)
class Committed:
    """`entry` is the number the journal gave; `gone` are sessions that no longer exist; `free` were let go by this node."""

    entry: int
    gone: frozenset[SessionId]
    free: frozenset[SessionId] = frozenset()


class CopiedTable(Record, omit_defaults=False):
    """A table that is the same in two databases. The digest does not depend on the order of its rows."""

    name: str
    rows: int
    sha256: str
