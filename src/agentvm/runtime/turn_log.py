"""Turn log — what was told of one turn, from wherever it is kept: the same events, in the same order."""

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
        self._replay, self._tenant_id, self._row = replay, tenant_id, row

    async def before(self) -> int:
        """A seq that all of the turn comes after, and little else."""
        first, _ = await self._log.range()
        return max(first - 1, await self._log.last_before(self._row.accepted_at))

    async def read(self, after: int) -> tuple[list[Event], int | None]:
        """The turn's events on the next page of the log, and where to go on; None at the turn's end, or at the log's."""
        missed = await self._replay.read(self._tenant_id, self._row.container_id, self._row.session_id, after)
        events: list[Event] = []
        for event in missed.events:
            if belongs_to(event, self._row.turn_id):
                events.append(event)
                if isinstance(event.data, TurnResponse):
                    return events, None
        if not missed.events or missed.events[-1].seq >= missed.last:
            return events, None
        return events, missed.events[-1].seq

    async def read_all(self, most: int | None = None, *, words: bool = True) -> tuple[list[Event], bool]:
        """Returns the events of a turn, and whether they are complete so far; about `most` of them are read.

        Without `words` the pieces of what was said are left out, which are nearly all of them.
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
    """Tells whether the event is one of the turn's."""
    if event.scope.turn_id is not None:
        return event.scope.turn_id == turn_id
    return isinstance(event.data, Interrupted) and event.data.turn_id == turn_id
