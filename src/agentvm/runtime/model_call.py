"""Model call — the one way to ask a model: for turns, titles and summaries.

Theory of operation. The provider chain names a provider; a slot of it is taken; the prompt is built; the maximum of the call is
reserved; that the call is made is committed; then the request leaves. A request that never left, or that the provider refused
before it answered, is withdrawn and costs nothing. Every other call is settled once, by the provider's report or by an
estimate. A fallback is asked only while nothing was answered.
"""

import math
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Protocol

import anyio

from agentvm.drivers.base import ModelOutput, Prompt
from agentvm.drivers.models import Chosen
from agentvm.drivers.sending import Sending
from agentvm.drivers.weighing import most_input, most_searches
from agentvm.errors import ProviderError, ProviderTimeout, Refused
from agentvm.model.ids import TenantId, UserId
from agentvm.model.ledger import Planned
from agentvm.runtime.attached import Filled
from agentvm.runtime.provider_chain import ProviderAttempt, ProviderChain


class CallRecord(Protocol):
    """Records one model call: a turn does it with events, a title or a summary with the ledger."""

    @property
    def tenant_id(self) -> TenantId: ...

    @property
    def has_begun(self) -> bool:
        """Whether the provider has begun to answer the call in progress."""

    def prompt(self, chosen: Chosen) -> AbstractAsyncContextManager[Filled | None]:
        """The prompt for one provider; None if this provider cannot be called."""

    async def admit(self, chosen: Chosen, prompt: Prompt) -> Prompt:
        """Reserves the maximum of the call: the prompt, with as long an answer as there is room for. Raises `Refused`."""

    async def begin(self, provider: ProviderAttempt, prompt: Prompt, attempt: int) -> None:
        """Commits that the call is made."""

    async def receive(self, output: ModelOutput) -> None: ...

    async def withdraw(self) -> None:
        """The call used nothing."""

    async def settle(self, chosen: Chosen, *, cut: bool) -> None:
        """The call is over. With `cut` neither the provider nor its failure has ended it: it was stopped here."""

    def check(self, chosen: Chosen) -> None:
        """Raises a ProviderError for an answer that is not whole."""


def plan(
    chosen: Chosen,
    prompt: Prompt,
    tenant_id: TenantId,
    user_id: UserId | None,
    *,
    conversation: int | None = None,
    least_output: int | None = None,
) -> Planned:
    """The most that a call can use; `conversation` is the most of its conversation, if that is known already."""
    driver = chosen.driver
    window = driver.context_window(prompt.model)
    return Planned(
        tenant_id=tenant_id,
        user_id=user_id,
        driver=driver.name,
        model=prompt.model,
        most_input=most_input(prompt, driver=driver.name, window=window, conversation=conversation),
        most_output=prompt.max_tokens + (prompt.thinking or 0),
        most_searches=most_searches(prompt),
        least_output=least_output,
        own_key=chosen.own_key,
        hosted=chosen.hosted,
        provider=chosen.provider,
    )


async def ask(chain: ProviderChain, record: CallRecord) -> Chosen | None:
    """Returns the provider that answered; None if none of them could be called. Raises the last failure if no provider
    answered."""
    while not chain.empty:
        response = await chain.next()
        if await _try(chain, response, record):
            return response.chosen
    return None


async def _try(chain: ProviderChain, provider: ProviderAttempt, record: CallRecord) -> bool:
    """Whether this provider answered; if another one has to be called, there was no output and nothing is reserved."""
    try:
        # The slot first: a call that waits for it holds no files in memory.
        async with provider.chosen.slot(record.tenant_id), record.prompt(provider.chosen) as filled:
            if filled is None or not await _admit(provider, filled, record):
                chain.skip(provider)
                return False
            await record.begin(provider, filled.prompt, chain.attempts)
            await _call(provider, filled, record, chain.patience(provider))
    except ProviderError as error:
        if provider.attempt.spoken:
            provider.attempt.failed(error)
            raise
        chain.failed(provider, error)
        return False
    finally:
        provider.attempt.leave()
    return True


async def _admit(provider: ProviderAttempt, filled: Filled, record: CallRecord) -> bool:
    try:
        filled.replace(await record.admit(provider.chosen, filled.prompt))
    except Refused:
        if provider.place == 0:
            raise
        # A fallback that must not be paid for is passed over.
        return False
    return True


async def _call(provider: ProviderAttempt, filled: Filled, record: CallRecord, until: float) -> None:
    sending, refused, cut = Sending(), False, True
    try:
        provider.attempt.sent()
        with sending:
            await _receive(provider, filled, record, until)
        cut = False
    except ProviderError as error:
        refused, cut = not error.unanswered, False
        raise
    finally:
        if not record.has_begun and (refused or not sending.left):
            await record.withdraw()
        else:
            await record.settle(provider.chosen, cut=cut)
    record.check(provider.chosen)


async def _receive(provider: ProviderAttempt, filled: Filled, record: CallRecord, until: float) -> None:
    async with aclosing(provider.chosen.driver.run(filled.take())) as outputs:
        # Taken by itself: that the provider answers is noted once, and costs the rest nothing.
        first = await anext(outputs, None) if until == math.inf else await _first(provider, outputs, until)
        filled.sent()
        if first is not None:
            provider.attempt.answered()
            await record.receive(first)
            async for output in outputs:
                await record.receive(output)


async def _first(provider: ProviderAttempt, outputs: AsyncIterator[ModelOutput], until: float) -> ModelOutput | None:
    began = anyio.current_time()
    with anyio.CancelScope(deadline=until) as silent:
        return await anext(outputs, None)
    assert silent.cancelled_caught
    waited = anyio.current_time() - began
    error = ProviderTimeout(f"{provider.chosen.provider} did not begin to answer in time; try again", waited=waited)
    error.unanswered = True
    raise error
