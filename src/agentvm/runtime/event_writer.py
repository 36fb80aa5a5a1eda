"""Event writer — stores the events of an agent, then sends them. Events that could not be stored come first later."""

from collections.abc import Callable, Iterable, Sequence

from agentvm.errors import AgentVMError
from agentvm.errors.cluster import NodeFenced, SessionMoved
from agentvm.events.base import Event, EventData, EventScope
from agentvm.log import get_logger
from agentvm.model.ids import ContainerId, SessionId, TenantId
from agentvm.runtime.accepted import Accepted
from agentvm.runtime.ports import Ports
from agentvm.runtime.session_log import SessionLog

logger = get_logger(__name__)


class EventWriter:
    """Writes the events of one agent. `open_turns` are its queued and running turns, perhaps from before a restart."""

    def __init__(
        self,
        ports: Ports,
        tenant_id: TenantId,
        container_id: ContainerId,
        session_id: SessionId,
        scope: EventScope,
        open_turns: Callable[[], Iterable[Accepted]],
    ) -> None:
        self._ports = ports
        self._where = (tenant_id, container_id, session_id)
        self.session = (tenant_id, session_id)
        self._scope = scope
        self._open_turns = open_turns
        self._log: SessionLog | None = None
        self.unstored: list[tuple[Sequence[EventData], EventScope]] = []
        """Ends of turns that were sent and could not be stored."""

    async def log(self) -> SessionLog:
        if self._log is None or self._log.stale:
            self._log = await self._ports.journal.open(*self._where)
            for accepted in self._open_turns():
                # From before a restart: whatever happens to them, a stop for one, must stay in the journal until they end.
                # One that is just being refused has no end, and would keep the session here for good.
                if accepted.is_known_stored:
                    self._log.open_turns.setdefault(accepted.state.turn_id)
        return self._log

    async def write(self, contents: Sequence[EventData], scope: EventScope | None = None, *, is_urgent: bool = False) -> bool:
        """Stores and sends events; sends them without a cursor if the store refuses. Returns whether they were stored."""
        scope = scope or self._scope
        # Twice: the first failure may be one of what was posted before.
        for _ in range(2):
            try:
                await self.emit(contents, scope, is_urgent=is_urgent)
            except SessionMoved:
                # Another node is to be asked, and tells what it does.
                raise
            except NodeFenced:
                # The others continue with the turn: what happens here is not what clients will read.
                return False
            except AgentVMError as error:
                logger.error(
                    "event_not_stored", type=contents[-1].type, agent_id=scope.agent_id, code=error.code, error=str(error)
                )
            else:
                return True
        at = self._ports.clock()
        self._ports.broadcast([Event(data=data, scope=scope, timestamp=at, tenant_id=self._where[0]) for data in contents])
        return False

    async def end(self, contents: Sequence[EventData], scope: EventScope) -> None:
        """Stores and sends the end of a turn; an end that could not be stored is owed."""
        try:
            if not await self.write(contents, scope, is_urgent=True):
                self.unstored.append((contents, scope))
        except SessionMoved as moved:
            self.unstored.append((contents, scope))
            await self._drop_void(moved)
            await self.store_unstored()

    async def emit(self, contents: Sequence[EventData], scope: EventScope, *, is_urgent: bool = False) -> None:
        """Stores and sends events, after the owed ones: clients that were away must get those ends, too."""
        log, journal = await self.log(), self._ports.journal
        journal.check(log, scope)
        # Taken at once, and posted all or none: nobody must pay an end twice.
        unstored, self.unstored = self.unstored, []
        try:
            for end in unstored:
                log.failed.pop(end[1].turn_id, None)
                journal.post(log, *end)
            await journal.emit(log, contents, scope, is_urgent=is_urgent)
        except AgentVMError as error:
            self.unstored = unstored + self.unstored
            if isinstance(error, SessionMoved):
                await self._drop_void(error)
            raise

    async def _drop_void(self, moved: SessionMoved) -> None:
        """Drops the owed ends of turns that another node was quicker to end, or to continue with. One of them
        refuses them all."""
        tenant = self._ports.store.tenant(self._where[0])
        for end in [*self.unstored]:
            turn_id = end[1].turn_id
            turn = None if turn_id is None else await tenant.find_turn(turn_id)
            if turn is not None and turn.outcome is None and (moved.runner is None or turn.parked_at is not None):
                continue
            self.unstored = [unstored for unstored in self.unstored if unstored is not end]
            if self._log is not None and turn_id is not None:
                self._log.failed.pop(turn_id, None)
                # It must not keep the session here.
                self._log.open_turns.pop(turn_id, None)
            logger.info("turn_ended_elsewhere", turn_id=turn_id)

    async def store_unstored(self) -> None:
        """Stores the ends of turns that were sent while the store refused writes."""
        # Twice: the others are refused together with one that is void.
        for _ in range(2):
            if self.unstored:
                try:
                    await self.emit((), self._scope)
                except SessionMoved:
                    continue
                except AgentVMError as error:
                    logger.error("turn_end_not_stored", agent_id=self._scope.agent_id, code=error.code, error=str(error))
            return


class UnstoredEnds:
    """Ends of turns that stopped agents could not store: otherwise the next start would take those turns up again."""

    def __init__(self) -> None:
        self._writers: dict[tuple[TenantId, SessionId], EventWriter] = {}

    def keep(self, writer: EventWriter) -> None:
        if writer.unstored:
            writer.unstored = self.take(*writer.session) + writer.unstored
            self._writers[writer.session] = writer

    def take(self, tenant_id: TenantId, session_id: SessionId) -> list[tuple[Sequence[EventData], EventScope]]:
        """Returns the owed ends of a session, for its next agent, which stores them before other events."""
        writer = self._writers.pop((tenant_id, session_id), None)
        return [] if writer is None else writer.unstored

    async def store_unstored(self) -> None:
        for session in [*self._writers]:
            if (writer := self._writers.pop(session, None)) is not None:
                await writer.store_unstored()
                self.keep(writer)
