"""Resumption — resumes a turn that another process has started.

The attempt is counted, in a small commit, before any part of the session is read: a part that kills the process is then known
as the cause. Only the stored messages and events of the turn itself are read, and no more than fits into memory.
"""

import zlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import anyio
import msgspec

from agentvm.errors import RecordUnreadable, SessionNotFound, SessionQuarantined, StoreFailed
from agentvm.events.base import Event
from agentvm.events.stream import MessageDelta, MessageStart, MessageStop, TextDelta, ThinkingDelta, ToolUseStop
from agentvm.events.tool import ToolStarted
from agentvm.events.turn import TurnRequest, TurnResumed
from agentvm.log import get_logger
from agentvm.model.ids import MessageId, TenantId
from agentvm.model.image import Image
from agentvm.model.message import Message, ToolCall, ToolCallMessage
from agentvm.model.turn import Turn
from agentvm.runtime import turn
from agentvm.runtime.accepted import Accepted
from agentvm.runtime.chunk import decode_some, open_chunk
from agentvm.runtime.ports import TURN_MAX_BYTES, Ports
from agentvm.runtime.recovery import progress, suspects
from agentvm.runtime.recovery.settlement import settle_finished
from agentvm.runtime.turn import TurnState
from agentvm.storage.base import SessionWrite
from agentvm.storage.sql.log import LogStore

logger = get_logger(__name__)

EVENTS_MAX = 10_000
"""Events at the end of a log among which a turn is looked for whose beginning cannot be found by its time."""

READ_PAUSES_SECONDS = (0.1, 0.5, 2.0)
"""Pauses between the attempts to read a turn that is taken up."""

_LOOKED_AT = (
    TurnRequest,
    MessageStart,
    MessageDelta,
    TextDelta,
    ThinkingDelta,
    ToolUseStop,
    MessageStop,
    ToolStarted,
    TurnResumed,
)


def resumed_state(left: Turn, done: progress.Done | None) -> TurnState:
    """A turn from before a restart, with its progress as far as that is known."""
    begun = turn.begin(left.turn_id, left.message_id, left.accepted_at)
    return begun if done is None else _with(begun, done)


def _with(state: TurnState, done: progress.Done) -> TurnState:
    produced = max(state.produced, done.produced)
    return msgspec.structs.replace(
        state,
        produced=produced,
        pending=done.unanswered,
        usage=done.usage,
        call_ids=done.call_ids,
        at_provider=done.at_provider,
    )


async def count(ports: Ports, begun: Sequence[tuple[TenantId, Accepted, Turn]], *, alongside: int | None = None) -> None:
    """Counts, in one commit, that these turns are begun once more; `alongside` of how many suspects."""
    now = ports.clock()
    writes = [
        SessionWrite(
            tenant_id=tenant_id,
            container_id=left.container_id,
            session_id=left.session_id,
            now=now,
            turns=(msgspec.structs.replace(left, attempts=accepted.attempt, alongside=alongside),),
        )
        for tenant_id, accepted, left in begun
    ]
    await ports.store.commit(writes)
    for _, accepted, _ in begun:
        accepted.counted = True


async def take_up(ports: Ports, tenant_id: TenantId, image: Image, accepted: Accepted) -> None:
    """Reads the progress and usage of the turn; the usage is charged also if it cannot continue.

    `SessionQuarantined` for one of a session that is set aside: that is not read.
    """
    finish = settle_finished
    try:
        await _restore_turn(ports, tenant_id, accepted)
    except StoreFailed:
        # It is not begun; but the calls that it was in were made, and its end is told with what they used.
        finish = _review_and_settle
        raise
    finally:
        await _persist(accepted, lambda: finish(ports, tenant_id, image, accepted))


async def _persist(accepted: Accepted, read: Callable[[], Awaitable[None]]) -> None:
    """Reads again and again: a turn that was ended now would not report its usage. Only its own session waits for it."""
    for pause_seconds in READ_PAUSES_SECONDS:
        try:
            return await read()
        except StoreFailed as error:
            logger.error("turn_not_read", turn_id=accepted.scope.turn_id, error=str(error))
            await anyio.sleep(pause_seconds)
    await read()


async def _restore_turn(ports: Ports, tenant_id: TenantId, accepted: Accepted) -> None:
    left = accepted.left
    if left is None:
        return
    await _persist(accepted, lambda: _skip_ids(ports, tenant_id, accepted, left))
    ports.quarantine.check(tenant_id, left.session_id)
    if not accepted.counted:
        await count(ports, [(tenant_id, accepted, left)])
    if suspects.is_to_blame(left, accepted.attempt, ports.settings_of(tenant_id).limits.attempts):
        accepted.is_to_blame = True
        reason = f"the server did not survive a turn of it {accepted.attempt} times"
        # First: should the server not survive what is still to be done about the turn, nobody looks at it again.
        await ports.quarantine.put(tenant_id, left.container_id, left.session_id, reason)
    await _persist(accepted, lambda: _review(ports, tenant_id, accepted, left))
    accepted.left = None


async def _review_and_settle(ports: Ports, tenant_id: TenantId, image: Image, accepted: Accepted) -> None:
    """Both or neither: without the text that clients received of a call, less than its usage would be charged."""
    if (left := accepted.left) is not None:
        with suppress(SessionQuarantined, SessionNotFound):
            await _skip_ids(ports, tenant_id, accepted, left)
            ports.quarantine.check(tenant_id, left.session_id)
            await _review(ports, tenant_id, accepted, left)
    await settle_finished(ports, tenant_id, image, accepted)


async def _skip_ids(ports: Ports, tenant_id: TenantId, accepted: Accepted, left: Turn) -> None:
    """Each id belongs to an event, so new ids are greater than all that the turn may have used."""
    head = (await ports.journal.open(tenant_id, left.container_id, left.session_id)).head
    accepted.state = msgspec.structs.replace(accepted.state, produced=max(head, accepted.state.produced))


async def _review(ports: Ports, tenant_id: TenantId, accepted: Accepted, left: Turn) -> None:
    """Reads the messages, calls and waits of the turn."""
    log = ports.store.tenant(tenant_id).container(left.container_id).log(left.session_id)
    async with ports.taking_up:
        own = await _own_messages(ports, tenant_id, log, left)
        events = await _recent_events(ports, tenant_id, log, left)
    done = progress.review(own, left.turn_id)
    accepted.cut, accepted.spent = progress.find_cut(events, left.turn_id), done.usage
    accepted.state = _with_partial(_with(accepted.state, done), progress.find_partial(events, left.turn_id))
    accepted.asked_for, accepted.lost_at_provider = _whole_calls(own, accepted.state.told_id), done.lost_at_provider
    if done.call_ids:
        placed = await ports.store.tenant(tenant_id).placed_calls().list_turn(left.session_id, left.turn_id)
        tool_ms, nested = progress.find_tool_use(placed)
        accepted.tool_seconds, accepted.nested = max(accepted.tool_seconds, tool_ms / 1000), accepted.nested | nested
    if accepted.state.pending:
        accepted.started = progress.find_started(events, left.turn_id, accepted.state.pending)
        waits = ports.store.tenant(tenant_id).waits((left.container_id,))
        # One that was answered meanwhile is known better.
        stored = {wait.call_id: wait for wait in await waits.list_turn(left.session_id, left.turn_id)}
        accepted.waits = {**stored, **accepted.waits}


def _with_partial(state: TurnState, partial: progress.Partial | None) -> TurnState:
    return state if partial is None else msgspec.structs.replace(state, told=partial.text, told_id=partial.message_id)


def _whole_calls(own: Sequence[Message], message_id: MessageId | None) -> tuple[ToolCall, ...]:
    """The tool calls of a message that was cut off: those that are stored are whole, and none of them was run."""
    calls = (message for message in own if isinstance(message, ToolCallMessage) and message.parent_id == message_id)
    return tuple(message.tool_call for message in calls if not message.tool_call.by_provider)


async def _own_messages(ports: Ports, tenant_id: TenantId, log: LogStore, left: Turn) -> tuple[Message, ...]:
    """A history that cannot be read ends its own turn, in quarantine, and does not block other turns."""
    try:
        own, _ = await log.list_turn_messages(left, TURN_MAX_BYTES)
    except RecordUnreadable as error:
        reason = f"its history cannot be read ({error})"
        await ports.quarantine.put(tenant_id, left.container_id, left.session_id, reason)
        return ()
    return own


async def _recent_events(ports: Ports, tenant_id: TenantId, log: LogStore, left: Turn) -> list[Event]:
    """Returns the last output of the model in the session, from its log and from events not in it yet."""
    live = ports.journal.find(tenant_id, left.session_id)
    # A copy: while the log is read, a commit may move the tail into it.
    tail = [] if live is None else [*live.tail]
    try:
        first, last = await log.range()
        events = await _read(log, tenant_id, left, max(first - 1, await log.last_before(left.accepted_at)), last)
        if not events and not any(event.scope.turn_id == left.turn_id for event in tail):
            # The clock was set back meanwhile.
            events = await _read(log, tenant_id, left, max(first - 1, last - EVENTS_MAX), last)
    except (RecordUnreadable, SessionNotFound, zlib.error, msgspec.DecodeError, KeyError, IndexError) as error:
        # Nobody is kept from going on by a call that cannot be billed, or by an answer whose beginning is not known.
        logger.error("cut_call_unknown", turn_id=left.turn_id, error=repr(error))
        return []
    return [*(event for event in events if not tail or event.seq < tail[0].seq), *tail]


async def _read(log: LogStore, tenant_id: TenantId, left: Turn, after: int, last: int) -> list[Event]:
    """Events of the turn, chunk by chunk: of a turn of any length no more is held than its last message."""
    events: list[Event] = []
    while after < last and (chunks := await log.read(after, 1)):
        (chunk,) = chunks
        chunk_events = decode_some(open_chunk(chunk.body), tenant_id, _LOOKED_AT) if chunk.body else []
        events = progress.drop_ended([*events, *(event for event in chunk_events if event.scope.turn_id == left.turn_id)])
        after = chunk.last_seq
    return events
