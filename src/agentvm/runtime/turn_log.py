"""Turn log — the events of one turn, from memory or the database: the same events, in the same order."""

from typing import TYPE_CHECKING

from agentvm.events.base import Event
from agentvm.events.lifecycle import Interrupted
from agentvm.events.stream import InputJsonDelta, TextDelta, ThinkingDelta
from agentvm.events.turn import TurnRequest, TurnResponse
from agentvm.model.ids import TenantId, TurnId
from agentvm.model.turn import Turn

if TYPE_CHECKING:
    from agentvm.runtime.replay import Replay
    from agentvm.storage.sql.store import Store

_PIECES = (TextDelta, ThinkingDelta, InputJsonDelta)


class TurnLog:
    """One turn of a tenant."""

    def __init__(self, store: "Store", replay: "Replay", tenant_id: TenantId, row: Turn) -> None:
        self._log = store.tenant(tenant_id).container(row.container_id).log(row.session_id)
        self._replay, self._row = replay, row
        self._place = (tenant_id, row.container_id, row.session_id)

    async def before(self) -> int:
        """A seq that all of the turn comes after, and little else."""
        first, _ = await self._log.range()
        return max(first - 1, await self._log.last_before(self._row.accepted_at))

    async def read(self, after: int) -> tuple[list[Event], int | None]:
        """The turn's events on the next page of the log, and where to continue; None at the turn's end, or at the log's."""
        missed = await self._replay.read(*self._place, after)
        if not missed.events and not missed.lost and await self._has_more(after):
            missed = await self._replay.read(*self._place, after)
        events: list[Event] = []
        for event in missed.events:
            if belongs_to(event, self._row.turn_id):
                events.append(event)
                if isinstance(event.data, TurnResponse):
                    return events, None
        if not missed.events:
            return events, None
        last = missed.events[-1].seq
        return events, last if last < missed.last or await self._has_more(last) else None

    async def _has_more(self, after: int) -> bool:
        """In a cluster, the node that has ended the turn may have events that are not known here."""
        return self._row.outcome is not None and await self._replay.has_more(*self._place, after)

    async def read_all(self, most: int | None = None, *, words: bool = True) -> tuple[list[Event], bool]:
        """Returns the events of a turn, and whether they are complete so far; about `most` of them are read.

        Without `words` deltas are left out, which are nearly all events.
        """
        events, seen, after = list[Event](), 0, await self.before()
        further: int | None = after
        while further is not None and (most is None or seen < most):
            page, further = await self.read(after)
            seen += len(page)
            events += page if words else (event for event in page if not isinstance(event.data, _PIECES))
            after = after if further is None else further
        begun = any(isinstance(event.data, TurnRequest) for event in events)
        ended = self._row.outcome is None or (bool(events) and isinstance(events[-1].data, TurnResponse))
        return events, begun and ended and further is None


def belongs_to(event: Event, turn_id: TurnId) -> bool:
    """Returns whether the event is one of the turn's."""
    if event.scope.turn_id is not None:
        return event.scope.turn_id == turn_id
    return isinstance(event.data, Interrupted) and event.data.turn_id == turn_id
