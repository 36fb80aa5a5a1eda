"""Settlement — what a turn used before a restart counts, and the call it was in when its process died is charged, once."""

from dataclasses import replace

import msgspec

from agentvm.drivers.conversation import weigh
from agentvm.errors import DriverNotFound
from agentvm.events.turn import ModelCalled
from agentvm.model.ids import TenantId
from agentvm.model.image import Image
from agentvm.model.usage import estimate_tokens
from agentvm.runtime import context
from agentvm.runtime.accepted import Accepted
from agentvm.runtime.ports import Ports
from agentvm.runtime.recovery import Cut

GONE_WINDOW = 100_000
"""Tokens that a provider is taken to have read at most that nobody can be asked about any more."""


async def settle_up(ports: Ports, tenant_id: TenantId, image: Image, accepted: Accepted) -> None:
    """Of a turn from before a restart; once. Its entries go with the next commit of the turn."""
    if not accepted.resumed or accepted.settled:
        return
    ledger = ports.store.accounts(tenant_id).ledger
    used, accepted.bill.price = await ledger.turn_total(accepted.state.turn_id)
    if not used.total:
        # From before there was a ledger: what its messages say.
        used = accepted.state.usage
    cut = accepted.cut
    if cut is not None:
        window = await _admit(ports, tenant_id, image, accepted, cut)
        cut = await _with_input(ports, tenant_id, image, accepted, cut, window)
        accepted.bill.enter((ModelCalled(call_id=cut.call_id, model=cut.model, usage=cut.usage),))
        used += cut.usage
    accepted.state = msgspec.structs.replace(accepted.state, usage=used)
    accepted.settled = True


async def _admit(ports: Ports, tenant_id: TenantId, image: Image, accepted: Accepted, cut: Cut) -> int:
    """The call is billed for who was really asked, which need not be who would be asked now; its window."""
    try:
        async with ports.choose(tenant_id, cut.asked or image.definition.model) as (chosen, *_):
            name, own_key, provider = chosen.driver.name, chosen.own_key, chosen.provider
            await accepted.bill.admit(name, chosen.model, own_key=own_key, provider=provider, force=True)
            return chosen.driver.context_window(chosen.model)
    except DriverNotFound:
        if cut.asked is None:
            raise
        # It was taken out of the configuration meanwhile. What it used, it used.
        provider, _, model = cut.asked.partition("/")
        await accepted.bill.admit(provider, model, provider=provider, force=True)
        return GONE_WINDOW


async def _with_input(ports: Ports, tenant_id: TenantId, image: Image, accepted: Accepted, cut: Cut, window: int) -> Cut:
    """A provider that had not said what it read has read the whole prompt, which was made of what is stored."""
    session_id = accepted.scope.session_id
    if cut.usage.total > cut.usage.output_tokens or session_id is None:
        return cut
    history = await ports.recall(tenant_id, image.container_id, session_id)
    system, summary = image.definition.system_prompt, None if history.summary is None else history.summary.text
    said = context.build(history.messages, accepted.state.turn_id, system=system, tools=(), budget=window, summary=summary)
    read = weigh(said) + estimate_tokens(system or "")
    return replace(cut, usage=msgspec.structs.replace(cut.usage, input_tokens=read, estimated=True))
