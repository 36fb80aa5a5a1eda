"""Background call — a model call that belongs to no turn: for titles and summaries.

Admitted and billed as any other call, under a key of its own, and recorded in the ledger alone: no event tells of it.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

import anyio

from agentvm.drivers.base import MessageStopped, ModelOutput, Prompt, StopReason, TextChunk, UsageReported
from agentvm.drivers.conversation import estimate_input
from agentvm.drivers.models import Chosen
from agentvm.errors import ProviderProtocolError
from agentvm.events.base import EventData, EventScope
from agentvm.events.turn import ModelCalled
from agentvm.model.ids import Clock, ContainerId, ImageId, SessionId, TenantId, TurnId, UserId
from agentvm.model.ledger import AskedCall, LedgerEntry
from agentvm.model.usage import NO_USAGE, Usage
from agentvm.runtime import model_call
from agentvm.runtime.attached import Filled
from agentvm.runtime.billing import Bill, Meter
from agentvm.runtime.estimate import used_by_cut_call
from agentvm.runtime.ports import Choose
from agentvm.runtime.provider_chain import Asked, ProviderChain
from agentvm.storage.sql.store import Store


class Tell(Protocol):
    def __call__(self, tenant_id: TenantId, scope: EventScope, data: EventData) -> None: ...


Billed = Callable[[str, LedgerEntry], None]
"""Called with the provider's name and the ledger entry of each call."""

WritePrompt = Callable[[Chosen], Prompt | None]
"""Writes the prompt for one provider; None when there is nothing that it could be asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOwner:
    """The account that a call is billed to. `key` names the call in the ledger."""

    key: str
    tenant_id: TenantId
    container_id: ContainerId
    image_id: ImageId
    session_id: SessionId
    user_id: UserId | None

    @property
    def scope(self) -> EventScope:
        # The turn is not that of the message: that one is over, and its cost was told.
        return EventScope(
            container_id=self.container_id, image_id=self.image_id, session_id=self.session_id, turn_id=TurnId(self.key)
        )


class BackgroundCalls:
    """Asks models beside the turns. Shared by titles and summaries."""

    def __init__(self, store: Store, clock: Clock, *, choose: Choose, meter: Meter) -> None:
        self.store = store
        self.clock = clock
        self.meter = meter
        self.choose = choose
        self.billed: Billed = lambda provider, entry: None

    async def ask(self, owner: CallOwner, candidates: Sequence[Chosen], write: WritePrompt) -> tuple[Chosen, str] | None:
        """The provider that answered, and its text; None when nobody could be asked anything. Raises the first failure."""
        call = LedgerCall(self, owner, write)
        chosen = await model_call.ask(ProviderChain(candidates, patient=False), call)
        return None if chosen is None else (chosen, call.text)

    async def sender(self, tenant_id: TenantId, turn_id: TurnId) -> UserId | None:
        """The user who sent the message of a turn, and is billed for its title or summary."""
        turn = await self.store.tenant(tenant_id).find_turn(turn_id)
        return None if turn is None else turn.user_id


@dataclass(slots=True)
class _Answer:
    pieces: list[str] = field(default_factory=list)
    usage: Usage | None = None
    stopped: StopReason | None = None
    begun: bool = False


class LedgerCall:
    """Records one call in the ledger; see `agentvm.runtime.model_call.CallRecord`."""

    def __init__(self, calls: BackgroundCalls, owner: CallOwner, write: WritePrompt) -> None:
        self.tenant_id = owner.tenant_id
        self._calls = calls
        self._owner = owner
        self._write = write
        self._bill = Bill(calls.meter, calls.clock, owner.tenant_id, owner.user_id, owner.scope)
        self._accounts = calls.store.accounts(owner.tenant_id)
        self._asked: AskedCall | None = None
        self._answer = _Answer()

    @property
    def heard(self) -> bool:
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

    async def begin(self, asked: Asked, prompt: Prompt, attempt: int) -> None:
        key = self._owner.key
        self._asked = self._bill.ask(f"{key}.{asked.place + 1}", key, estimate_input(prompt)).call
        self._answer = _Answer()
        committed = False
        try:
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
            await self._accounts.ledger.add((), answered=(self._asked.key,))

    async def settle(self, chosen: Chosen, *, cut: bool) -> None:
        call, answer = self._asked, self._answer
        assert call is not None
        usage = answer.usage or used_by_cut_call(NO_USAGE, self.text, call.input_tokens, 0)
        key = call.call_id if answer.begun else call.key
        self._bill.enter((ModelCalled(call_id=key, model=call.model, usage=usage, asked=call.key),))
        entry = self._bill.entries[-1]
        with anyio.CancelScope(shield=True):
            await self._accounts.ledger.add((entry,), answered=(call.key,))
        self._calls.billed(call.provider, entry)

    def check(self, chosen: Chosen) -> None:
        """Half of an answer is none, as for a turn, and neither is a refusal: it would replace the conversation."""
        if self._answer.stopped is None:
            raise ProviderProtocolError(f"{chosen.name} ended its answer without saying why; try again")
        if self._answer.stopped == "refusal":
            raise ProviderProtocolError(f"{chosen.name} refused to write it; choose another model for it")
