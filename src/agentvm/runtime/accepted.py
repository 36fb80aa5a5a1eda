"""Accepted — a turn that is committed, from when it was taken until it has ended; and how a failure ends it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import anyio
import msgspec

from agentvm.errors import AgentVMError, ProviderError, WritesRefused
from agentvm.events import message, state
from agentvm.events import turn as turn_events
from agentvm.events.base import EventData, EventScope
from agentvm.events.lifecycle import SessionRewound
from agentvm.events.schedule import RunStarted
from agentvm.events.tool import ToolCharged
from agentvm.log import concerning
from agentvm.model.ids import KeyId, SessionId, TenantId, UserId
from agentvm.model.ledger import NO_USE, TreeUse
from agentvm.model.message import ToolCall, UserContent, UserMessage
from agentvm.model.schedule import SourceRun
from agentvm.model.turn import OnParked, Turn, TurnOptions, TurnOrigin
from agentvm.model.usage import NO_USAGE, Usage
from agentvm.model.wait import ToolWait
from agentvm.runtime import turn
from agentvm.runtime.batch import Batch, wait_for
from agentvm.runtime.billing import Bill
from agentvm.runtime.policy import PolicyLayer
from agentvm.runtime.ports import Ports
from agentvm.runtime.recovery import progress
from agentvm.runtime.session_log import SessionLog

Failure = tuple[str, str, bool]
"""A code, a text for people, and whether to try again may help."""


OnBusy = Literal["queue", "interrupt", "reject"]
"""While another turn runs: wait for it, stop it, or refuse the message."""


def failure_of(error: AgentVMError) -> Failure:
    return error.code, str(error), not isinstance(error, ProviderError) or error.retryable


@dataclass(slots=True, eq=False)
class Accepted:
    """A turn that is committed. It runs once it is released, which is after its sender has been answered."""

    state: turn.TurnState
    scope: EventScope
    bill: Bill
    tool_seconds: float = 0.0
    """Time of the turn's tools, also before a restart."""
    released: bool = False
    cursor: int = 0
    """The event before its first."""
    resumed: bool = False
    """Whether it continues after a restart."""
    cut: progress.Cut | None = None
    """The model call it was in when its process died."""
    attempt: int = 0
    """How often it was begun before and died with its process."""
    left: Turn | None = None
    """The row of a turn from before a restart, until its progress has been read."""
    counted: bool = False
    """Whether this attempt is on disk."""
    is_to_blame: bool = False
    """Whether the server has died of it too often for it to be begun again."""
    spent: Usage = NO_USAGE
    """Usage of its model calls that were finished before a restart."""
    asked_for: tuple[ToolCall, ...] = ()
    """The tools that it was asking for when its process died, as far as the calls were whole."""
    lost_at_provider: tuple[ToolCall, ...] = ()
    """Calls that the provider was making by itself when the process died."""
    request_id: str | None = None
    """The request that it came with, for the log."""
    cancelling: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    """Cancelled to stop the turn, whether it already runs or not."""
    over: anyio.Event = field(default_factory=anyio.Event)
    """Set when it has ended."""
    since: float = field(default_factory=anyio.current_time)
    """When this process took it, in the loop's time: the clock on the wall may be set in the meantime."""
    before_ms: int = 0
    """How long it had been going on by then."""

    skill_rules: tuple[PolicyLayer, ...] = ()
    """Rules of the skills that its model has read."""
    sources: dict[int, str] = field(default_factory=dict)
    """The citations of the passages that its model received, by their numbers."""
    waits: dict[str, ToolWait] = field(default_factory=dict)
    """Calls of the turn that wait or have waited for an answer, by the id of the call."""
    started: set[str] = field(default_factory=set)
    """Calls that have begun to run, or may have done so before a restart, by their ids."""
    programs: set[str] = field(default_factory=set)
    """Calls that run programs, by their ids: they may have a journal."""
    nested: set[str] = field(default_factory=set)
    """Calls that its programs have made, by their ids."""
    charged: set[str] = field(default_factory=set)
    """Keys of the ledger that jobs of its calls have, since this process has it."""
    results: list[tuple[Batch, ToolCall, Sequence[EventData]]] = field(default_factory=list)
    """Results of its calls that are being stored."""
    commits: dict[Batch, bool] = field(default_factory=dict)
    """Commits that it relies on, and whether they hold outputs of its model."""
    parked: bool = False
    """Whether it has left memory because all its calls wait."""
    answered: bool = False
    """Whether a wait was answered since it was last looked at."""
    listening: dict[str, anyio.Event] = field(default_factory=dict)
    """Set when a wait is answered whose call is held open, by the id of the wait."""
    answering: int = 0
    """Answers to its waits that are being stored: it is not parked in the meantime."""
    active_before_ms: int = 0
    """How long it had run when it was parked."""
    active_since: float = field(default_factory=anyio.current_time)
    """When it began to run here, in the loop's time."""
    options: TurnOptions | None = None
    """The choice of its sender."""
    origin: TurnOrigin | None = None
    """The schedule or trigger that has begun it; None for a person or a program."""
    agent: str = ""
    """The agent of the image that answers, by its URI; empty for the image itself."""
    switched: bool = False
    """Whether another agent of the image continues with it, since this one has handed over."""
    taken_up: bool = False
    """Whether clients were told that it continues after a restart."""
    cost: int = 0
    """Cost of its model calls so far, each at the rate of its provider, in nano-USD."""
    others: TreeUse = NO_USE
    """The use of the other turns on its budget."""
    suspended: bool = False
    """Whether it is stopped only to continue after a restart."""
    waits_for_parked: bool = False
    """Whether it waits until a parked turn before it has ended."""
    stopped: bool = False
    """Whether a stop was requested."""
    acceptance: Batch | None = None
    """The commit that accepts it, of a turn that has begun before; None for one that begins after its release."""
    _stored: "asyncio.Future[bool] | None" = None
    _gate: "asyncio.Future[None] | None" = None

    def follow(self, incoming: "Incoming", cursor: int) -> None:
        """Takes over the parts of an incoming message; `cursor` is the event before the turn's first."""
        self.cursor, self.waits_for_parked = cursor, incoming.waits_for_parked
        self.options, self.origin = incoming.options, incoming.origin

    @property
    def begun(self) -> bool:
        """Whether it has begun before it was released."""
        return self.acceptance is not None

    @property
    def is_known_stored(self) -> bool:
        """Whether there is such a turn, as far as is known by now."""
        return self._stored is None or (self._stored.done() and self._stored.result())

    def begin(self, acceptance: Batch) -> None:
        """Begins the turn now, so that its first model call is announced in the commit that accepts it; see `wait_released`."""
        self.acceptance = acceptance
        self._stored, self._gate = (asyncio.get_running_loop().create_future() for _ in range(2))

    async def confirm(self, ports: Ports, log: SessionLog) -> None:
        """Returns when it is accepted. One that could not be stored was never begun: nothing of it has left."""
        stored = False
        try:
            await ports.journal.confirm(self.acceptance, log, self.scope)
            stored = True
        finally:
            if self._stored is not None:
                self._stored.set_result(stored)
            if not stored:
                ports.histories.forget(log.tenant_id, log.session_id)
                self.cancelling.cancel()

    def release(self) -> None:
        self.released = True
        if self._gate is not None and not self._gate.done():
            self._gate.set_result(None)

    def stop(self) -> None:
        self.stopped = True
        self.cancelling.cancel()

    async def wait_stored(self) -> None:
        """Returns when the user's message can be read from the store."""
        if self._stored is not None:
            await asyncio.shield(self._stored)

    async def wait_released(self) -> None:
        """Returns when events of the turn may be sent."""
        if not self.released and self._gate is not None:
            await asyncio.shield(self._gate)

    async def is_stored(self) -> bool:
        """Whether there is such a turn; waits, cancelled or not, until that is known."""
        if self._stored is None:
            return True
        if not self._stored.done():
            with anyio.CancelScope(shield=True):
                await asyncio.wait((self._stored,))
        return self._stored.result()

    def note_commit(self, batch: Batch, *, by_model: bool) -> None:
        """Notes a commit that the turn relies on. Raises when an earlier one was refused."""
        if batch not in self.commits:
            self.check_stored()
            self.commits = {batch: is_models for batch, is_models in self.commits.items() if not batch.done.is_set()}
        self.commits[batch] = by_model or self.commits.get(batch, False)

    async def settle(self, ports: Ports, log: SessionLog) -> None:
        """Returns when all events of the turn so far are stored; raises when one is refused."""
        await ports.journal.settle(log, self.scope)
        self.check_stored()

    def check_stored(self) -> None:
        """Raises when the store has refused an event of the turn, also if another caller has received that error."""
        for batch in (*self.commits, *(batch for batch, _, _ in self.results)):
            if (error := self._refusal(batch)) is not None:
                raise error

    async def review_commits(self) -> list[EventData]:
        """Removes calls whose message the store has refused, and returns the refused results.

        Calls whose result can never be stored, because its bytes are gone, are open again.
        """
        for batch in (*self.commits, *(batch for batch, _, _ in self.results)):
            await wait_for(batch)
        if any(is_models and self._refusal(batch) is not None for batch, is_models in self.commits.items()):
            self.state = msgspec.structs.replace(self.state, pending=())
        refused: list[EventData] = []
        for batch, pending, events in self.results:
            match self._refusal(batch):
                case WritesRefused():
                    self.state = msgspec.structs.replace(self.state, pending=(*self.state.pending, pending))
                case AgentVMError():
                    # The bill repeats their charges.
                    refused += (event for event in events if not isinstance(event, ToolCharged))
                case None:
                    pass
        return refused

    def _refusal(self, batch: Batch) -> AgentVMError | None:
        return next((error for (_, turn_id), error in batch.errors.items() if turn_id == self.state.turn_id), None)

    @property
    def unattended(self) -> bool:
        """Whether no person is present to answer."""
        return self.origin is not None and self.origin.unattended

    def open_wait(self, call_id: str) -> ToolWait | None:
        """Returns the open wait of a call, or of a call that its program has made."""
        waits = (wait for key, wait in self.waits.items() if key == call_id or key.startswith(f"{call_id}."))
        return next((wait for wait in waits if wait.answer is None), None)

    def take_answer(self, wait: ToolWait) -> None:
        """Takes the answer to a wait, which is stored."""
        self.waits[wait.call_id] = wait
        self.answered = True
        if (listening := self.listening.get(wait.wait_id)) is not None:
            listening.set()

    def active_ms(self) -> int:
        """Returns how long it has run, without the time that it waited."""
        return self.active_before_ms + int((anyio.current_time() - self.active_since) * 1000)

    def limit(self, turn_seconds: float) -> None:
        """Begins its time; that of a turn that was parked continues where it stopped."""
        self.active_since = anyio.current_time()
        self.cancelling.deadline = self.active_since + turn_seconds - self.active_before_ms / 1000

    def handling(self, tenant_id: TenantId) -> concerning:
        """Log entries within are about this turn, regardless of the request that started the task."""
        return concerning(
            request_id=self.request_id,
            tenant_id=tenant_id,
            user_id=self.bill.user_id,
            container_id=self.scope.container_id,
            session_id=self.scope.session_id,
            turn_id=self.scope.turn_id,
        )

    def timed(self, contents: Sequence[EventData]) -> tuple[EventData, ...]:
        """The events, with how long the turn took in its end."""
        took = self.before_ms + int((anyio.current_time() - self.since) * 1000)
        return tuple(
            msgspec.structs.replace(data, duration=took) if isinstance(data, turn_events.TurnResponse) else data
            for data in contents
        )


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message that starts a turn, and the part of the history that is rewound for it."""

    content: UserContent
    client_key: str | None = None
    user_id: UserId | None = None
    key_id: KeyId | None = None
    rewound: SessionRewound | None = None
    on_parked: OnParked = "supersede"
    options: TurnOptions | None = None
    origin: TurnOrigin | None = None
    tainted: bool = False
    """The message holds untrusted text."""
    run: SourceRun | None = None
    """The run that the turn is, without the turn's id: stored in the commit that accepts it."""

    @property
    def waits_for_parked(self) -> bool:
        return self.on_parked == "queue"


def opening(begun: turn.TurnState, session_id: SessionId, incoming: Incoming, *, queued: bool) -> list[EventData]:
    """The first events of a turn: the rewind for it, the user's message, and its acceptance."""
    turn_id, message_id, at = begun.turn_id, begun.user_message_id, begun.accepted_at
    user = UserMessage(
        id=message_id, timestamp=at, turn_id=turn_id, role="user", content=incoming.content, tainted=incoming.tainted
    )
    events: list[EventData] = [] if incoming.rewound is None else [incoming.rewound]
    events += (
        message.MessagePersisted(session_id=session_id, message_id=message_id, saved_at=at),
        message.UserMessageEvent(message=user),
        turn_events.TurnRequest(
            turn_id=turn_id,
            message_id=message_id,
            timestamp=at,
            client_key=incoming.client_key,
            user_id=incoming.user_id,
            key_id=incoming.key_id,
            on_parked="queue" if incoming.waits_for_parked else None,
            options=incoming.options,
            origin=incoming.origin,
        ),
    )
    if incoming.run is not None:
        events.append(RunStarted(run=msgspec.structs.replace(incoming.run, session_id=session_id, turn_id=turn_id)))
    if queued:
        events.append(state.ConversationQueued(message_id=message_id))
    return events
