"""Restart — finds the turns that the process before has left, and lets them continue."""

from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio

from agentvm.errors import AgentVMError, RecordUnreadable, StoreFailed
from agentvm.log import get_logger
from agentvm.model.ids import SessionId, TenantId, TurnId
from agentvm.model.image import Image
from agentvm.model.ledger import SentCall
from agentvm.model.turn import Turn
from agentvm.runtime.accepted import Accepted
from agentvm.runtime.agent import Agent
from agentvm.runtime.ports import Ports
from agentvm.runtime.recovery.resumption import count
from agentvm.runtime.recovery.settlement import settle_unfinished
from agentvm.runtime.recovery.suspects import GROUP_SECONDS, is_to_blame, next_group
from agentvm.runtime.recovery.tails import PreviousRun, fold_orphans, fold_tails, read_tails
from agentvm.runtime.session_log import SessionLog
from agentvm.runtime.tasks import open_tasks
from agentvm.storage.sql.nodes import NodeStore, Orphan

logger = get_logger(__name__)

COUNTED_MAX = 64
"""Turns that are counted in one commit."""

HOMES_READ_MAX = 200
"""Turns whose images and sessions are looked for in one read."""

StartAgent = Callable[[TenantId, Image, SessionId], tuple[Agent, bool]]
Home = tuple[TenantId, Turn, Image | None, bool]
"""A turn with its image, and whether its session can be found."""


@dataclass(frozen=True, slots=True, eq=False)
class Resumed:
    """A turn from before the restart, and its row as it was found."""

    agent: Agent
    accepted: Accepted
    turn: Turn

    def is_suspect(self, limit: int) -> bool:
        """Whether the server may not survive the turn. One that is only to be ended need not wait in line."""
        attempt = self.accepted.attempt
        return attempt >= limit and not is_to_blame(self.turn, attempt, limit) and not self.accepted.cancelling.cancel_called


class Recovery:
    """The turns and model calls of the process before."""

    def __init__(self, ports: Ports, start_agent: StartAgent) -> None:
        self._ports = ports
        self._start_agent = start_agent
        self._turns: list[Resumed] = []
        self._calls: Sequence[SentCall] = ()

    async def find(self) -> None:
        """Finds every accepted turn without an end, and every model call without an entry. No history is read here."""
        if self._ports.store.node_id:
            # A node begins with nothing: it takes over what others have left, whoever they were.
            await self._ports.quarantine.load()
            return
        # First, before anything is asked anew.
        self._calls = await self._ports.store.list_sent_calls()
        await self._ports.quarantine.load()
        unfinished = await self._ports.store.list_unfinished()
        left = await self._fold({turn.turn_id for _, turn in unfinished})
        for log in left.logs:
            self._ports.journal.adopt(log)
        # Before the turns that waited behind them.
        self._turns += await self._resume((*left.parked, *unfinished), left)

    async def adopt(self, orphans: Sequence[Orphan], nodes: NodeStore) -> Callable[[], Coroutine[Any, Any, None]]:
        """Takes over sessions of nodes that have ended; returns a function that lets their turns continue.

        Every step can be done again by another node, should this one die in between: the sessions are this node's by then, and
        the journal of the ended node is kept until their events are in their logs.
        """
        store, journal = self._ports.store, self._ports.journal
        left = await fold_orphans(store, orphans, self._ports.clock())
        await nodes.folded(orphans)
        unfinished = (*left.parked, *await store.list_unfinished([orphan.session_key for orphan in orphans]))
        open_turns: dict[tuple[TenantId, SessionId], list[TurnId]] = {}
        for tenant_id, turn in unfinished:
            open_turns.setdefault((tenant_id, turn.session_id), []).append(turn.turn_id)
        heads = await store.read_heads([(log.tenant_id, log.container_id, log.session_id) for log in orphans])
        homes = await self._read_all_homes(unfinished)
        logs: dict[tuple[TenantId, SessionId], SessionLog] = {}
        turns: list[Resumed] = []
        for orphan in orphans:
            if orphan.key in heads:
                log = SessionLog(orphan.tenant_id, orphan.container_id, orphan.session_id, heads[orphan.key])
                logs[orphan.key] = await journal.take_over(log, log.head, open_turns.get(orphan.key, ()))
            # At once: from here on this node accepts messages, which are answered after these turns.
            turns += self._queue([home for home in homes if (home[0], home[1].session_id) == orphan.key], left)
        busy = {(resumed.agent.tenant_id, resumed.agent.session_id) for resumed in turns}
        for key in await nodes.release([key for key in logs if key not in busy]):
            journal.release(logs[key])
        return partial(self._let_go_on, turns)

    async def settle(self) -> None:
        """Charges the calls of no turn that nodes which have ended left."""
        if calls := await self._ports.store.list_sent_calls():
            await settle_unfinished(self._ports.store, self._ports.meter, self._ports.clock, calls)

    async def _resume(self, unfinished: Sequence[tuple[TenantId, Turn]], left: PreviousRun) -> list[Resumed]:
        turns: list[Resumed] = []
        for start in range(0, len(unfinished), HOMES_READ_MAX):
            turns += self._queue(await self._read_all_homes(unfinished[start : start + HOMES_READ_MAX]), left)
        return turns

    async def _read_all_homes(self, unfinished: Sequence[tuple[TenantId, Turn]]) -> list[Home]:
        homes: list[Home] = []
        for start in range(0, len(unfinished), HOMES_READ_MAX):
            some = unfinished[start : start + HOMES_READ_MAX]
            homes += ((*left, *home) for left, home in zip(some, await self._read_homes(some), strict=True))
        return homes

    def _queue(self, homes: Iterable[Home], left: PreviousRun) -> list[Resumed]:
        """Puts turns into the inboxes of their agents. Does not wait."""
        turns: list[Resumed] = []
        for tenant_id, turn, image, is_there in homes:
            if image is None:
                continue
            agent, _ = self._start_agent(tenant_id, image, turn.session_id)
            # A session that is gone was deleted just before the crash: nobody would see what the turn says.
            stopped = not is_there or turn.turn_id in left.stopped
            accepted = agent.resume(turn, stopped=stopped, suspended=turn.turn_id in left.suspended)
            turns.append(Resumed(agent, accepted, turn))
        return turns

    async def run(self) -> None:
        """Charges the calls of no turn and, beside that, lets the turns continue."""
        ports, calls, self._calls = self._ports, self._calls, ()
        async with open_tasks() as tasks:
            tasks.start_soon(settle_unfinished, ports.store, ports.meter, ports.clock, calls)
            turns, self._turns = self._turns, []
            tasks.start_soon(self._let_go_on, turns)

    async def _let_go_on(self, turns: Sequence[Resumed]) -> None:
        """Lets the turns run: all at once, but for those that the server may not survive."""
        limit = self._ports.settings_of(None).limits.attempts
        suspected = [resumed for resumed in turns if resumed.is_suspect(limit)]
        plain = [resumed for resumed in turns if resumed not in suspected]
        for start in range(0, len(plain), COUNTED_MAX):
            await self._begin(plain[start : start + COUNTED_MAX])
        running: list[Resumed] = []
        while suspected:
            group = next_group(suspected, lambda resumed: resumed.turn)
            suspected = [resumed for resumed in suspected if resumed not in group]
            running = [resumed for resumed in running if not resumed.accepted.over.is_set()]
            # Turns that still run are begun alongside these, too: they are as much to blame for what happens now.
            await self._begin(group, running)
            running += group
            with anyio.move_on_after(GROUP_SECONDS):
                for resumed in group:
                    await resumed.accepted.over.wait()

    async def _fold(self, open_turns: set[TurnId]) -> PreviousRun:
        try:
            return await fold_tails(self._ports.store, open_turns, self._ports.clock())
        except StoreFailed as error:
            # A server whose disk refuses writes starts all the same, and says that it is not ready.
            logger.error("journal_not_folded", code=error.code, error=str(error))
        logs = await read_tails(self._ports.store)
        stopped = {turn_id for log in logs for turn_id in log.stopped}
        left = PreviousRun(stopped, {turn_id for log in logs for turn_id in log.suspended}, logs)
        for log in logs:
            await left.find_parked(self._ports.store, log)
        return left

    async def _begin(self, group: Sequence[Resumed], alongside: Sequence[Resumed] | None = None) -> None:
        # A turn that waits behind another of its session is not begun yet.
        first = [resumed for resumed in group if resumed.agent.inbox and resumed.agent.inbox[0] is resumed.accepted]
        together = [*first, *(alongside or ())]
        begun = [(resumed.agent.tenant_id, resumed.accepted, resumed.turn) for resumed in together]
        try:
            await count(self._ports, begun, alongside=None if alongside is None else len(together))
        except AgentVMError as error:
            # Each is counted by itself when it begins, or not begun.
            logger.error("attempts_not_counted", code=error.code, error=str(error))
        for resumed in group:
            logger.info("turn_resumed", turn_id=resumed.turn.turn_id, attempts=resumed.turn.attempts)
            resumed.agent.release(resumed.accepted)

    async def _read_homes(self, some: Sequence[tuple[TenantId, Turn]]) -> Sequence[tuple[Image | None, bool]]:
        try:
            return await self._ports.store.read_homes(some)
        except RecordUnreadable as error:
            if len(some) > 1:
                return [home for session in some for home in await self._read_homes((session,))]
            tenant_id, turn = some[0]
            reason = f"its image cannot be read ({error})"
            await self._ports.quarantine.put(tenant_id, turn.container_id, turn.session_id, reason)
            return ((None, False),)
