"""Settlement — what a turn used before a restart counts, and the call it was in when its process died is charged, once."""

from dataclasses import replace

import msgspec

from agentvm.drivers.models import Chosen
from agentvm.events.turn import ModelCalled
from agentvm.model.ids import TenantId
from agentvm.model.image import Image
from agentvm.model.usage import estimate_tokens
from agentvm.runtime import context
from agentvm.runtime.answering import Accepted
from agentvm.runtime.ports import Ports
from agentvm.runtime.recovery import Cut


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
        async with ports.choose(tenant_id, image.definition.model) as chosen:
            await accepted.bill.admit(chosen.driver.name, chosen.model, own_key=chosen.own_key, force=True)
            cut = await _with_input(ports, tenant_id, image, accepted, cut, chosen)
        accepted.bill.enter((ModelCalled(call_id=cut.call_id, model=cut.model, usage=cut.usage),))
        used += cut.usage
    accepted.state = msgspec.structs.replace(accepted.state, usage=used)
    accepted.settled = True


async def _with_input(ports: Ports, tenant_id: TenantId, image: Image, accepted: Accepted, cut: Cut, chosen: Chosen) -> Cut:
    """A provider that had not said what it read has read the whole prompt, which was made of what is stored."""
    session_id = accepted.scope.session_id
    if cut.usage.total > cut.usage.output_tokens or session_id is None:
        return cut
    history = await ports.store.tenant(tenant_id).container(image.container_id).list_messages(session_id)
    system, window = image.definition.system_prompt, chosen.driver.context_window(chosen.model)
    said = context.build(history, accepted.state.turn_id, system=system, tools=(), budget=window)
    read = context.weigh(said) + estimate_tokens(system or "")
    return replace(cut, usage=msgspec.structs.replace(cut.usage, input_tokens=read, estimated=True))
