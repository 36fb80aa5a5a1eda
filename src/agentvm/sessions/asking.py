"""Asking — a model call that belongs to no turn: who is asked, who pays for it, and what was said. For titles and summaries.

It is admitted and billed as any other call, under a key of its own. Who stands in is asked while nothing was said; what
was said is paid for, also when it was cut off.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from typing import Protocol

import anyio

from agentvm.drivers.base import MessageStopped, ModelOutput, Prompt, StopReason, TextDelta, UsageReported
from agentvm.drivers.conversation import most_tokens, weigh
from agentvm.drivers.models import Chosen, TenantAttempt, is_outage
from agentvm.errors import ProviderError, ProviderProtocolError, Refused
from agentvm.events.base import EventData, Scope
from agentvm.model.ids import Clock, ContainerId, ImageId, SessionId, TenantId, TurnId, UserId
from agentvm.model.ledger import Charge, LedgerEntry, Planned
from agentvm.model.usage import Usage, estimate_tokens
from agentvm.storage.base import Store


class Hold(Protocol):
    def settle(self, usage: Usage) -> Charge: ...
    def release(self) -> None: ...


class Meter(Protocol):
    """Who decides whether a call may be made, and what it costs."""

    async def admit(self, planned: Planned, *, force: bool = False) -> Hold: ...


class Tell(Protocol):
    def __call__(self, tenant_id: TenantId, scope: Scope, data: EventData) -> None: ...


Billed = Callable[[str, LedgerEntry], None]
"""Is told of a model call that was entered in the ledger, and of the name of its provider."""

Choose = Callable[[TenantId, str | None], AbstractAsyncContextManager[Sequence[Chosen]]]
"""Who answers for a tenant under a model's name, then who may stand in, in order; for as long as the context lasts."""

Write = Callable[[Chosen], Prompt | None]
"""What one of them is asked; None when there is nothing that it could be asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """What a call is for, and whom it is billed to. `key` names it in the ledger."""

    key: str
    tenant_id: TenantId
    container_id: ContainerId
    image_id: ImageId
    session_id: SessionId
    user_id: UserId | None


class Asking:
    """Shared by all who ask beside the turns."""

    def __init__(self, store: Store, clock: Clock, *, choose: Choose, meter: Meter) -> None:
        self._store = store
        self._clock = clock
        self._meter = meter
        self.choose = choose
        self.billed: Billed = lambda provider, entry: None
        """Who counts what is billed; no event tells of it."""

    async def ask(self, errand: Errand, candidates: Sequence[Chosen], write: Write) -> tuple[Chosen, str] | None:
        """Who answered, and what; None when nobody could be asked anything. Raises what the first failed with."""
        failure: ProviderError | None = None
        for place, one in enumerate(candidates):
            if one.health.wait > 0:
                failure = failure or one.health.error()
                continue
            prompt = write(one)
            if prompt is None:
                continue
            attempt = one.health.begin()
            try:
                return one, await self._try(errand, one, prompt, attempt)
            except Refused:
                if place == 0:
                    raise
                # Who may not be paid for does not stand in for anybody.
            except ProviderError as error:
                attempt.failed(error)
                if attempt.spoken or (place == 0 and not is_outage(error)):
                    raise
                failure = failure or error
            finally:
                attempt.leave()
        if failure is not None:
            raise failure
        return None

    async def sender(self, tenant_id: TenantId, turn_id: TurnId) -> UserId | None:
        """Who sent a message, and is billed for what is done about it."""
        turn = await self._store.tenant(tenant_id).find_turn(turn_id)
        return None if turn is None else turn.user_id

    async def _try(self, errand: Errand, one: Chosen, prompt: Prompt, attempt: TenantAttempt) -> str:
        planned = Planned(
            tenant_id=errand.tenant_id,
            user_id=errand.user_id,
            driver=one.driver.name,
            model=one.model,
            most_input=most_tokens(prompt),
            most_output=prompt.max_tokens,
            own_key=one.own_key,
            provider=one.provider,
        )
        hold = await self._meter.admit(planned)
        attempt.made()
        pieces: list[str] = []
        usage: Usage | None = None
        stopped: StopReason | None = None
        try:
            outputs: AsyncGenerator[ModelOutput, None] = one.driver.run(prompt)
            async with aclosing(outputs):
                async for output in outputs:
                    if not attempt.spoken:
                        attempt.answered()
                    match output:
                        case TextDelta(text=text):
                            pieces.append(text)
                        case UsageReported(usage=usage):
                            pass
                        case MessageStopped(stop_reason=stopped):
                            pass
                        case _:
                            pass
        finally:
            with anyio.CancelScope(shield=True):
                await self._settle(errand, planned, hold, prompt, usage, "".join(pieces))
        # Half of it is no answer, as for a turn, and neither are excuses: they would stand for what was said from then on.
        if stopped is None:
            raise ProviderProtocolError(f"{one.name} ended its answer without saying why; try again")
        if stopped == "refusal":
            raise ProviderProtocolError(f"{one.name} refused to write it; choose another model for it")
        return "".join(pieces)

    async def _settle(
        self, errand: Errand, planned: Planned, hold: Hold, prompt: Prompt, usage: Usage | None, said: str
    ) -> None:
        if usage is None:
            if not said:
                hold.release()
                return
            read = weigh(prompt.conversation) + estimate_tokens(prompt.system or "")
            usage = Usage(input_tokens=read, output_tokens=estimate_tokens(said), estimated=True)
        charge = hold.settle(usage)
        entry = LedgerEntry(
            key=errand.key,
            at=self._clock(),
            tenant_id=errand.tenant_id,
            user_id=errand.user_id,
            container_id=errand.container_id,
            image_id=errand.image_id,
            session_id=errand.session_id,
            # Not that of a turn: those are over, and what they cost was told.
            turn_id=TurnId(errand.key),
            driver=planned.driver,
            model=planned.model,
            usage=usage,
            cost=charge.cost,
            price=charge.price,
        )
        await self._store.accounts(errand.tenant_id).ledger.add((entry,))
        self.billed(planned.provider, entry)
