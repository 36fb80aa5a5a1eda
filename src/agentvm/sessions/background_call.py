"""Background call — a model call outside of turns: for titles, memories and summaries.

Admitted and billed like any other call, under a key of its own, and recorded in the ledger alone: there is no event for it.
"""

from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

import anyio
import msgspec

from agentvm.drivers.base import MessageStopped, ModelOutput, Prompt, StopReason, TextChunk, UsageReported
from agentvm.drivers.conversation import estimate_input
from agentvm.drivers.models import Chosen
from agentvm.errors import ProviderProtocolError, StoreFailed
from agentvm.events.base import Event, EventData, EventScope
from agentvm.events.turn import ModelCalled, TurnResponse
from agentvm.log import get_logger
from agentvm.model.ids import Clock, ContainerId, ImageId, KeyId, SessionId, TenantId, TurnId, UserId
from agentvm.model.ledger import LedgerEntry, SentCall
from agentvm.model.usage import NO_USAGE, Usage
from agentvm.runtime import model_call
from agentvm.runtime.attached import Filled
from agentvm.runtime.billing import Bill, Meter
from agentvm.runtime.estimate import used_by_cut_call
from agentvm.runtime.ports import Choose
from agentvm.runtime.provider_chain import ProviderAttempt, ProviderChain
from agentvm.storage.sql.store import Store

logger = get_logger(__name__)


class PublishEvent(Protocol):
    def __call__(self, tenant_id: TenantId, scope: EventScope, data: EventData) -> None: ...


Billed = Callable[[str, LedgerEntry], None]
"""Called with the provider's name and the ledger entry of each call."""

WritePrompt = Callable[[Chosen], Prompt | None]
"""Writes the prompt for one provider; None if this provider cannot be called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionWork:
    """Background work for one session, billed to `user_id`, or else to the sender of the turn."""

    tenant_id: TenantId
    container_id: ContainerId
    image_id: ImageId
    session_id: SessionId
    turn_id: TurnId | None = None
    model: str | None = None
    """The model that answered the turn."""
    user_id: UserId | None = None
    key_id: KeyId | None = None
    requested: bool = False
    """Whether a user has requested it now, however short the history is."""

    @classmethod
    def after(cls, event: Event) -> "SessionWork | None":
        """Returns the work that may follow an ended turn; None for any other event."""
        scope, data = event.scope, event.data
        if not isinstance(data, TurnResponse):
            return None
        if scope.container_id is None or scope.image_id is None or scope.session_id is None or scope.turn_id is None:
            return None
        return cls(
            tenant_id=event.tenant_id,
            container_id=scope.container_id,
            image_id=scope.image_id,
            session_id=scope.session_id,
            turn_id=scope.turn_id,
            model=data.model,
        )

    @property
    def key(self) -> tuple[TenantId, SessionId]:
        return self.tenant_id, self.session_id

    @property
    def scope(self) -> EventScope:
        """The scope of events about the result."""
        return EventScope(container_id=self.container_id, image_id=self.image_id)

    async def run(
        self, step: Callable[["SessionWork", PublishEvent], Coroutine[None, None, None]], publish: PublishEvent, crashed: str
    ) -> bool:
        """Runs a step in a task group of its own: a bug of a driver ends this work, not the server. False after a crash."""
        try:
            async with anyio.create_task_group() as alone:
                alone.start_soon(step, self, publish)
        except ExceptionGroup:
            logger.exception(crashed, session_id=self.session_id)
            return False
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOwner:
    """The account that a call is billed to. `key` names the call in the ledger."""

    key: str
    work: SessionWork
    user_id: UserId | None
    key_id: KeyId | None = None

    @property
    def scope(self) -> EventScope:
        # Not the turn of the message: that one has ended, and its cost was reported.
        return msgspec.structs.replace(self.work.scope, session_id=self.work.session_id, turn_id=TurnId(self.key))


OWED_MAX = 1_000
"""Calls whose ends are kept until the disk takes them; the ends of more are estimated by the next start."""


@dataclass(frozen=True, slots=True)
class _Owed:
    """The end of a call that is to be entered: its ledger entry, none for one that cost nothing."""

    tenant_id: TenantId
    call: SentCall
    entry: LedgerEntry | None = None


class BackgroundCalls:
    """Calls models outside of turns. Shared by titles, memories and summaries."""

    def __init__(self, store: Store, clock: Clock, *, choose: Choose, meter: Meter) -> None:
        self.store = store
        self.clock = clock
        self.meter = meter
        self.choose = choose
        self.billed: Billed = lambda provider, entry: None
        self._owed: deque[_Owed] = deque(maxlen=OWED_MAX)

    async def close(self, tenant_id: TenantId, call: SentCall, entry: LedgerEntry | None = None) -> None:
        """Enters the end of a call. One that the disk refuses is entered before the next call is asked."""
        owed = _Owed(tenant_id, call, entry)
        try:
            await self._enter(owed)
        except StoreFailed:
            # The next start would charge an estimate, also for a call that the provider has refused.
            self._owed.append(owed)
            raise

    async def pay(self) -> None:
        """Enters the ends of calls that the disk has refused; raises if it still does."""
        while self._owed:
            owed, entered = self._owed.popleft(), False
            try:
                await self._enter(owed)
                entered = True
            finally:
                if not entered:
                    self._owed.appendleft(owed)

    async def _enter(self, owed: _Owed) -> None:
        entries = () if owed.entry is None else (owed.entry,)
        await self.store.accounts(owed.tenant_id).ledger.add(entries, answered=(owed.call.key,))
        if owed.entry is not None:
            self.billed(owed.call.provider, owed.entry)

    async def ask(self, owner: CallOwner, candidates: Sequence[Chosen], write: WritePrompt) -> tuple[Chosen, str] | None:
        """Returns the provider that answered, and its text; None if none could be called. Raises the first failure."""
        call = LedgerCall(self, owner, write)
        chosen = await model_call.ask(ProviderChain(candidates, patient=False), call)
        return None if chosen is None else (chosen, call.text)

    async def owner(self, work: SessionWork, key: str) -> CallOwner:
        """Returns the owner of a call: the user of the work, else the sender of the turn's message."""
        user_id, key_id = work.user_id, work.key_id
        if user_id is None and key_id is None and work.turn_id is not None:
            turn = await self.store.tenant(work.tenant_id).find_turn(work.turn_id)
            user_id, key_id = (None, None) if turn is None else (turn.user_id, turn.key_id)
        return CallOwner(key=key, work=work, user_id=user_id, key_id=key_id)


@dataclass(slots=True)
class _Answer:
    pieces: list[str] = field(default_factory=list)
    usage: Usage | None = None
    stopped: StopReason | None = None
    begun: bool = False


class LedgerCall:
    """Records one call in the ledger; see `agentvm.runtime.model_call.CallRecord`."""

    def __init__(self, calls: BackgroundCalls, owner: CallOwner, write: WritePrompt) -> None:
        self.tenant_id = owner.work.tenant_id
        self._calls = calls
        self._owner = owner
        self._write = write
        self._bill = Bill(calls.meter, calls.clock, self.tenant_id, owner.user_id, owner.scope, key_id=owner.key_id)
        self._accounts = calls.store.accounts(self.tenant_id)
        self._asked: SentCall | None = None
        self._answer = _Answer()

    @property
    def has_begun(self) -> bool:
        return self._answer.begun

    @property
    def text(self) -> str:
        return "".join(self._answer.pieces)

    @asynccontextmanager
    async def prompt(self, chosen: Chosen) -> AsyncGenerator[Filled | None]:
        prompt = self._write(chosen)
        yield None if prompt is None else Filled(prompt, lambda: None)

    async def admit(self, chosen: Chosen, prompt: Prompt) -> Prompt:
        await self._bill.admit(model_call.plan(chosen, prompt, self.tenant_id, self._owner.user_id))
        return prompt

    def estimate(self, prompt: Prompt) -> int:
        """Returns about how many tokens the provider reads."""
        return estimate_input(prompt)

    async def begin(self, provider: ProviderAttempt, prompt: Prompt, attempt: int) -> None:
        key = self._owner.key
        self._asked = self._bill.ask(f"{key}.{provider.place + 1}", key, self.estimate(prompt)).call
        self._answer = _Answer()
        committed = False
        try:
            await self._calls.pay()
            await self._accounts.asked.add(self._asked)
            committed = True
        finally:
            if not committed:
                # The request has not left.
                await self.withdraw()

    async def receive(self, output: ModelOutput) -> None:
        answer = self._answer
        answer.begun = True
        match output:
            case TextChunk(text=text):
                answer.pieces.append(text)
            case UsageReported(usage=usage):
                answer.usage = usage
            case MessageStopped(stop_reason=reason):
                answer.stopped = reason
            case _:
                pass

    async def withdraw(self) -> None:
        assert self._asked is not None
        self._bill.close()
        with anyio.CancelScope(shield=True):
            await self._calls.close(self.tenant_id, self._asked)

    async def settle(self, chosen: Chosen, *, cut: bool) -> None:
        call, answer = self._asked, self._answer
        assert call is not None
        usage = answer.usage
        if usage is None or answer.stopped is None:
            # Some providers report the input at once and the answer at its end.
            usage = used_by_cut_call(usage or NO_USAGE, self.text, call.input_tokens, 0)
        key = call.call_id if answer.begun else call.key
        self._bill.enter((ModelCalled(call_id=key, model=call.model, usage=usage, asked=call.key),))
        entry = self._bill.entries[-1]
        with anyio.CancelScope(shield=True):
            await self._calls.close(self.tenant_id, call, entry)

    def check(self, chosen: Chosen) -> None:
        """Refuses an incomplete answer, as for a turn, and a refusal, which would replace the conversation."""
        if self._answer.stopped is None:
            raise ProviderProtocolError(f"{chosen.name} ended its answer without a stop reason; try again")
        if self._answer.stopped == "refusal":
            raise ProviderProtocolError(f"{chosen.name} refused to write the text; choose another model")
