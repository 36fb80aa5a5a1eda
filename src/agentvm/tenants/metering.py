"""Metering — decides whether a model call may be made, and says what it costs."""

from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal

from agentvm.errors import ModelUnpriced
from agentvm.events.lifecycle import QuotaWarning
from agentvm.model.ids import Clock
from agentvm.model.ledger import Charge, Planned
from agentvm.model.usage import Usage
from agentvm.tenants.price import Prices
from agentvm.tenants.quota import QuotaHold, Quotas

MARKUP = Decimal("1.05")
"""What is charged for a dollar of a provider's tokens; everything else is free."""


class Metering:
    """Admits calls and charges for them; see `agentvm.runtime.billing.Meter`."""

    def __init__(
        self, prices: Prices, quotas: Quotas, clock: Clock, *, markup: Decimal = MARKUP, allow_unpriced: bool = False
    ) -> None:
        self._prices = prices
        self._quotas = quotas
        self._clock = clock
        self._markup = markup
        self._allow_unpriced = allow_unpriced

    def configure(self, *, markup: Decimal, allow_unpriced: bool) -> None:
        """From now on; a call that runs is charged with the prices and the markup it was admitted with."""
        self._markup = markup
        self._allow_unpriced = allow_unpriced

    async def admit(self, planned: Planned, *, force: bool = False) -> "MeteredHold":
        most = Usage(input_tokens=planned.most_input, output_tokens=planned.most_output)
        charge = self.charge(planned, most)
        if charge.price is None and not (self._allow_unpriced or force):
            name = f"{planned.driver}/{planned.model}"
            raise ModelUnpriced(
                f"Nobody knows what {name} costs, so it is not used where people are billed; the operator sets its price "
                f"(billing.prices.{name}) or allows models without one (billing.allowUnpriced: on)"
            )
        tokens = planned.most_input + planned.most_output
        held = await self._quotas.hold(planned.tenant_id, planned.user_id, tokens, charge.price or 0, force=force)
        # What was set aside was reckoned with these, and it must be enough.
        return MeteredHold(Terms(self._prices.as_now(), self._markup), planned, held, self._clock)

    def charge(self, planned: Planned, usage: Usage) -> Charge:
        return Terms(self._prices, self._markup).charge(planned, usage, self._clock())


@dataclass(frozen=True, slots=True)
class Terms:
    """What is charged for what."""

    prices: Prices
    markup: Decimal

    def charge(self, planned: Planned, usage: Usage, at: int) -> Charge:
        cost: int | None
        if planned.own_key:
            # The tenant's account pays the vendor. What the operator asks besides is under the provider's name, and for an
            # endpoint of the operator's under its driver's too: at the vendor's address that stands for the vendor's price.
            names = () if planned.provider == planned.driver else (planned.provider,)
            cost = self.prices.own_cost((*names, planned.driver) if planned.hosted else names, planned.model, usage) or 0
        else:
            cost = self.prices.cost(planned.driver, planned.model, usage, at, planned.provider)
        if cost is None:
            return Charge(None, None)
        # Rounded once, here: the price of a row never depends on how rows are summed.
        return Charge(cost, int((cost * self.markup).to_integral_value(rounding=ROUND_HALF_EVEN)))


@dataclass(frozen=True, slots=True)
class MeteredHold:
    """What is set aside for one call; see `agentvm.runtime.billing.Hold`."""

    _terms: Terms
    _planned: Planned
    _held: QuotaHold
    _clock: Clock

    @property
    def warnings(self) -> tuple[QuotaWarning, ...]:
        return self._held.warnings

    def settle(self, usage: Usage) -> Charge:
        charge = self._terms.charge(self._planned, usage, self._clock())
        paid = self._held.settle(usage.total, charge.price or 0)
        return charge if charge.price is None else Charge(charge.cost, paid)

    def release(self) -> None:
        self._held.release()
