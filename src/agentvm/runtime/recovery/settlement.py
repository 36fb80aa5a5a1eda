"""Settlement — counts the usage of a turn before a restart, and bills its interrupted model call once."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from agentvm.drivers.conversation import count_tokens
from agentvm.errors import AgentVMError, DriverNotFound
from agentvm.events.turn import ModelCalled
from agentvm.log import get_logger
from agentvm.model.definition import system_text
from agentvm.model.ids import Clock, TenantId
from agentvm.model.image import Image
from agentvm.model.ledger import Planned, SentCall
from agentvm.model.usage import Usage, estimate_tokens
from agentvm.runtime import context
from agentvm.runtime.accepted import Accepted
from agentvm.runtime.billing import Meter
from agentvm.runtime.ports import Ports
from agentvm.runtime.recovery.progress import Cut
from agentvm.runtime.sub_agents import parent_of
from agentvm.storage.sql.store import Store

logger = get_logger(__name__)

GONE_WINDOW_TOKENS = 100_000
"""Assumed maximum of input tokens for a provider that is no longer configured."""


async def settle_finished(ports: Ports, tenant_id: TenantId, image: Image, accepted: Accepted) -> None:
    """Settles the calls of a turn from before a restart, once. Their entries go with the next commit of the turn.

    If the store fails it can be called again: existing entries are kept.
    """
    bill = accepted.bill
    if bill.settled:
        return
    bill.close()
    used, price = await ports.store.accounts(tenant_id).ledger.turn_total(accepted.state.turn_id)
    if not used.total:
        # From before there was a ledger: what its messages say.
        used = accepted.state.usage
    entered = {entry.key for entry in bill.entries}
    cut = accepted.cut
    for call in await ports.store.accounts(tenant_id).asked.of_turn(accepted.state.turn_id):
        partial, cut = (cut, None) if cut is not None and cut.call_id == call.call_id else (None, cut)
        usage = call.unanswered if partial is None else _with_estimate(partial, call)
        key = call.key if partial is None else call.call_id
        if key not in entered:
            await bill.admit(call.planned, force=True)
            bill.enter((ModelCalled(call_id=key, model=call.model, usage=usage, asked=call.key),))
    if cut is not None:
        window = await _admit(ports, tenant_id, image, accepted, cut)
        cut = await _with_input(ports, tenant_id, image, accepted, cut, window)
        bill.enter((ModelCalled(call_id=cut.call_id, model=cut.model, usage=cut.usage),))
    if parent_of(accepted) is None:
        turn_id = accepted.state.turn_id
        bill.agents_price = (await ports.store.accounts(tenant_id).ledger.tree_use(turn_id, turn_id)).price
    bill.price = price + sum(entry.price or 0 for entry in bill.entries)
    used = sum((entry.usage for entry in bill.entries), used)
    accepted.state = msgspec.structs.replace(accepted.state, usage=used)
    bill.settled = True


def _with_estimate(partial: Cut, call: SentCall) -> Usage:
    """A provider that had not reported its input tokens is assumed to have read the whole request."""
    if partial.usage.total > partial.usage.output_tokens:
        return partial.usage
    return msgspec.structs.replace(partial.usage, input_tokens=call.input_tokens, estimated=True)


async def settle_unfinished(store: Store, meter: Meter, clock: Clock, left: Sequence[SentCall]) -> None:
    """Enters calls of an earlier process that belong to no turn which could see to it: beside turns, or of one that is gone."""
    for call in left:
        usage = call.unanswered
        try:
            charge = (await meter.admit(call.planned, force=True)).settle(usage)
            await store.accounts(call.tenant_id).ledger.add((call.entry(usage, charge, clock()),), answered=(call.key,))
        except AgentVMError as error:
            # The next start finds it.
            logger.error("call_not_settled", turn_id=call.turn_id, code=error.code, error=str(error))


async def _admit(ports: Ports, tenant_id: TenantId, image: Image, accepted: Accepted, cut: Cut) -> int:
    """Returns the window of the model that was actually called, which may differ from the one that would be called now."""
    try:
        async with ports.choose(tenant_id, cut.asked or image.definition.model) as (chosen, *_):
            planned = Planned(
                tenant_id=tenant_id,
                user_id=accepted.bill.user_id,
                driver=chosen.driver.name,
                model=chosen.model,
                most_input=0,
                most_output=0,
                own_key=chosen.own_key,
                hosted=chosen.hosted,
                provider=chosen.provider,
            )
            await accepted.bill.admit(planned, force=True)
            return chosen.driver.context_window(chosen.model)
    except DriverNotFound:
        if cut.asked is None:
            raise
        # It was taken out of the configuration meanwhile. What it used, it used.
        name, _, model = cut.asked.partition("/")
        user_id = accepted.bill.user_id
        planned = Planned(
            tenant_id=tenant_id, user_id=user_id, driver=name, model=model, most_input=0, most_output=0, provider=name
        )
        await accepted.bill.admit(planned, force=True)
        return GONE_WINDOW_TOKENS


async def _with_input(ports: Ports, tenant_id: TenantId, image: Image, accepted: Accepted, cut: Cut, window: int) -> Cut:
    """A provider that had not reported its input tokens is assumed to have read the whole prompt, which is rebuilt from the
    store."""
    session_id = accepted.scope.session_id
    if cut.usage.total > cut.usage.output_tokens or session_id is None:
        return cut
    history = await ports.recall(tenant_id, image.container_id, session_id)
    system, summary = system_text(image.definition), None if history.summary is None else history.summary.text
    conversation = context.build(
        history.messages, accepted.state.turn_id, system=system, tools=(), budget=window, summary=summary
    )
    read = count_tokens(conversation) + estimate_tokens(system or "")
    return replace(cut, usage=msgspec.structs.replace(cut.usage, input_tokens=read, estimated=True))
