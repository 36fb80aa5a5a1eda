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
        self.owed: list[tuple[Sequence[EventData], EventScope]] = []
        """Ends of turns that were sent and could not be stored."""

    async def log(self) -> SessionLog:
        if self._log is None or self._log.stale:
            self._log = await self._ports.journal.open(*self._where)
            for accepted in self._open_turns():
                # From before a restart: whatever happens to them, a stop for one, must stay in the journal until they end.
                self._log.open_turns.setdefault(accepted.state.turn_id)
        return self._log

    async def tell(self, told: Sequence[EventData], scope: EventScope | None = None) -> bool:
        """Stores and sends events; sends them without a cursor if the store refuses. Returns whether they were stored."""
        scope = scope or self._scope
        # Twice: the first failure may be one of what was posted before.
        for _ in range(2):
            try:
                await self.emit(told, scope)
            except SessionMoved:
                # Another node is to be asked, and tells what it does.
                raise
            except NodeFenced:
                # The others go on with the turn: what happens here is not what clients will read.
                return False
            except AgentVMError as error:
                logger.error("event_not_stored", type=told[-1].type, agent_id=scope.agent_id, code=error.code, error=str(error))
            else:
                return True
        at = self._ports.clock()
        self._ports.tell([Event(data=data, scope=scope, timestamp=at, tenant_id=self._where[0]) for data in told])
        return False

    async def end(self, told: Sequence[EventData], scope: EventScope) -> None:
        """Stores and sends the end of a turn; what could not be stored is owed."""
        try:
            if not await self.tell(told, scope):
                self.owed.append((told, scope))
        except SessionMoved:
            # A turn that had waited for somebody: another node was quicker to end it, or to go on with it.
            self._give_up(scope)

    async def emit(self, told: Sequence[EventData], scope: EventScope) -> None:
        """Stores and sends events, after the owed ones: clients that were away must get those ends, too."""
        log, journal = await self.log(), self._ports.journal
        journal.check(log, scope)
        # Taken at once, and posted all or none: nobody must pay an end twice.
        owed, self.owed = self.owed, []
        try:
            for end in owed:
                log.failed.pop(end[1].turn_id, None)
                journal.post(log, *end)
            await journal.emit(log, told, scope)
        except SessionMoved:
            # Another node was quicker to end those turns, or to go on with them: what was to be said of them here is void.
            for _, ended in owed:
                log.failed.pop(ended.turn_id, None)
                self._give_up(ended)
            raise
        except AgentVMError:
            self.owed = owed + self.owed
            raise

    def _give_up(self, scope: EventScope) -> None:
        """A turn has its end elsewhere: it must not keep the session here."""
        if self._log is not None and scope.turn_id is not None:
            self._log.open_turns.pop(scope.turn_id, None)
        logger.info("turn_ended_elsewhere", turn_id=scope.turn_id)

    async def pay(self) -> None:
        """Stores the ends of turns that were sent while the store refused writes."""
        if self.owed:
            try:
                await self.emit((), self._scope)
            except SessionMoved:
                # Nothing is owed any more.
                pass
            except AgentVMError as error:
                logger.error("turn_end_not_stored", agent_id=self._scope.agent_id, code=error.code, error=str(error))


class OwedEnds:
    """Ends of turns that stopped agents could not store: otherwise the next start would take those turns up again."""

    def __init__(self) -> None:
        self._writers: dict[tuple[TenantId, SessionId], EventWriter] = {}

    def keep(self, writer: EventWriter) -> None:
        if writer.owed:
            writer.owed = self.take(*writer.session) + writer.owed
            self._writers[writer.session] = writer

    def take(self, tenant_id: TenantId, session_id: SessionId) -> list[tuple[Sequence[EventData], EventScope]]:
        """Returns what is owed to a session, for its next agent; that stores it before anything else."""
        writer = self._writers.pop((tenant_id, session_id), None)
        return [] if writer is None else writer.owed

    async def pay(self) -> None:
        for session in [*self._writers]:
            if (writer := self._writers.pop(session, None)) is not None:
                await writer.pay()
                self.keep(writer)
