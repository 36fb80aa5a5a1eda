"""Asking — a model call that belongs to no turn: who is asked, who pays for it, and what was said. For titles and summaries.

It is admitted and billed as any other call, under a key of its own. Who stands in is asked while nothing was said; what
was said is paid for, also when it was cut off.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Protocol

import anyio
import msgspec

from agentvm.drivers.base import MessageStopped, ModelOutput, Prompt, StopReason, TextChunk, UsageReported
from agentvm.drivers.conversation import estimate_input
from agentvm.drivers.models import Chosen, TenantAttempt, is_outage
from agentvm.drivers.sending import Sending
from agentvm.drivers.weighing import most_input
from agentvm.errors import AgentVMError, ProviderError, ProviderProtocolError, Refused
from agentvm.events.base import EventData, EventScope
from agentvm.model.ids import Clock, ContainerId, ImageId, SessionId, TenantId, TurnId, UserId
from agentvm.model.ledger import AskedCall, LedgerEntry, Planned
from agentvm.model.usage import Usage, estimate_tokens
from agentvm.runtime.billing import Hold, Meter
from agentvm.runtime.ports import Choose
from agentvm.storage.sql.store import Store


class Tell(Protocol):
    def __call__(self, tenant_id: TenantId, scope: EventScope, data: EventData) -> None: ...


Billed = Callable[[str, LedgerEntry], None]
"""Is told of a model call that was entered in the ledger, and of the name of its provider."""

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
                async with one.slot(errand.tenant_id):
                    return one, await self._try(errand, one, prompt, attempt, f"{errand.key}.{place + 1}")
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

    async def _try(self, errand: Errand, one: Chosen, prompt: Prompt, attempt: TenantAttempt, key: str) -> str:
        planned = Planned(
            tenant_id=errand.tenant_id,
            user_id=errand.user_id,
            driver=one.driver.name,
            model=one.model,
            most_input=most_input(prompt, driver=one.driver.name, window=one.driver.context_window(one.model)),
            most_output=prompt.max_tokens,
            own_key=one.own_key,
            hosted=one.hosted,
            provider=one.provider,
        )
        hold = await self._meter.admit(planned)
        call = self._call(errand, planned, key, estimate_input(prompt))
        heard, sending, refused = _Heard(), Sending(), False
        try:
            # Committed before the request leaves: whatever happens then, it is billed.
            await self._store.accounts(errand.tenant_id).asked.add(call)
            attempt.sent()
            with sending.watch():
                await self._hear(one.driver.run(prompt), attempt, heard)
        except AgentVMError as error:
            refused = not isinstance(error, ProviderError) or not error.unanswered
            raise
        finally:
            with anyio.CancelScope(shield=True):
                await self._settle(call, hold, heard, used=heard.begun or (sending.left and not refused))
        # Half of it is no answer, as for a turn, and neither are excuses: they would stand for what was said from then on.
        if heard.stopped is None:
            raise ProviderProtocolError(f"{one.name} ended its answer without saying why; try again")
        if heard.stopped == "refusal":
            raise ProviderProtocolError(f"{one.name} refused to write it; choose another model for it")
        return heard.text

    async def _hear(self, outputs: AsyncGenerator[ModelOutput, None], attempt: TenantAttempt, heard: "_Heard") -> None:
        async with aclosing(outputs):
            async for output in outputs:
                if not attempt.spoken:
                    attempt.answered()
                heard.begun = True
                match output:
                    case TextChunk(text=text):
                        heard.pieces.append(text)
                    case UsageReported(usage=usage):
                        heard.usage = usage
                    case MessageStopped(stop_reason=reason):
                        heard.stopped = reason
                    case _:
                        pass

    def _call(self, errand: Errand, planned: Planned, key: str, input_tokens: int) -> AskedCall:
        return AskedCall(
            key=key,
            call_id=errand.key,
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
            provider=planned.provider,
            own_key=planned.own_key,
            hosted=planned.hosted,
            input_tokens=input_tokens,
        )

    async def _settle(self, call: AskedCall, hold: Hold, heard: "_Heard", *, used: bool) -> None:
        """The call was used, and has one entry; or it was not, and is forgotten."""
        ledger = self._store.accounts(call.tenant_id).ledger
        if not used:
            hold.release()
            await ledger.add((), answered=(call.key,))
            return
        usage = heard.usage
        if usage is None:
            said = heard.text
            usage = msgspec.structs.replace(call.unanswered, output_tokens=estimate_tokens(said) if said else 0)
        entry = call.entry(usage, hold.settle(usage), self._clock(), key=call.call_id if heard.begun else call.key)
        await ledger.add((entry,), answered=(call.key,))
        self.billed(call.provider, entry)


@dataclass(slots=True)
class _Heard:
    """What came of one call."""

    pieces: list[str] = field(default_factory=list)
    usage: Usage | None = None
    stopped: StopReason | None = None
    begun: bool = False

    @property
    def text(self) -> str:
        return "".join(self.pieces)
