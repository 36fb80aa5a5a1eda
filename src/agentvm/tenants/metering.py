"""Metering — decides whether a model call may be made, and computes its price."""

from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal

import msgspec

from agentvm.errors import ModelUnpriced
from agentvm.events.lifecycle import QuotaWarning
from agentvm.model.ids import Clock
from agentvm.model.ledger import Charge, Planned
from agentvm.model.usage import Usage
from agentvm.tenants.price import Prices
from agentvm.tenants.quota import QuotaHold, QuotaRemaining, Quotas

MARKUP = Decimal("1.05")
"""The price of one dollar of a provider's tokens; all other calls are free."""


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
        """Applies to new calls; a running call keeps the prices and the markup it was admitted with."""
        self._markup = markup
        self._allow_unpriced = allow_unpriced

    async def admit(self, planned: Planned, *, force: bool = False) -> "MeteredHold":
        """Sets aside the most that the call can use, with as long an answer as there is room for."""
        # The reserved amount is computed with these prices, and it must be enough.
        terms, at = Terms(self._prices.as_now(), self._markup), self._clock()
        price = terms.most(planned, planned.most_output, at)
        if price is None and not (self._allow_unpriced or force):
            name = f"{planned.driver}/{planned.model}"
            raise ModelUnpriced(
                f"The price of {name} is unknown, so it is not used on a server that bills; the operator sets its price "
                f"(billing.prices.{name}) or allows models without one (billing.allowUnpriced: on)"
            )
        output = planned.most_output
        if not force and planned.least_output is not None:
            most = planned.most_input + output
            room = await self._quotas.remaining(planned.tenant_id, planned.user_id, most, price or 0)
            output = max(min(planned.least_output, output), _affordable(terms, planned, room, at))
            price = price if output == planned.most_output else terms.most(planned, output, at)
        tokens = planned.most_input + output
        held = await self._quotas.hold(planned.tenant_id, planned.user_id, tokens, price or 0, force=force)
        return MeteredHold(terms, planned, held, self._clock, output)

    def charge(self, planned: Planned, usage: Usage) -> Charge:
        return Terms(self._prices, self._markup).charge(planned, usage, self._clock())


@dataclass(frozen=True, slots=True)
class Terms:
    """The prices, the markup and the payer of one call."""

    prices: Prices
    markup: Decimal

    def charge(self, planned: Planned, usage: Usage, at: int) -> Charge:
        cost = self._cost(planned, usage, at)
        if not cost:
            return Charge(cost, cost)
        # Rounded once, here: the price of a row never depends on how rows are summed.
        return Charge(cost, int((cost * self.markup).to_integral_value(rounding=ROUND_HALF_EVEN)))

    def most(self, planned: Planned, output: int, at: int) -> int | None:
        """The most that the call can be charged with an answer of that many tokens: its input may be written to a cache."""
        full_price = planned.most_input
        rest = Usage(input_tokens=0, output_tokens=output, web_searches=planned.most_searches)
        kinds = (
            msgspec.structs.replace(rest, input_tokens=full_price),
            msgspec.structs.replace(rest, cache_write_tokens=full_price),
            msgspec.structs.replace(rest, cache_read_tokens=full_price),
        )
        prices = [self.charge(planned, usage, at).price for usage in kinds]
        return max((price for price in prices if price is not None), default=None)

    def _cost(self, planned: Planned, usage: Usage, at: int) -> int | None:
        if planned.own_key:
            # The tenant's account pays the vendor. A surcharge of the operator stands under the provider's name, and for an
            # endpoint of the operator also under its driver's: at the vendor's address that name stands for the vendor's price.
            names = () if planned.provider == planned.driver else (planned.provider,)
            return self.prices.own_cost((*names, planned.driver) if planned.hosted else names, planned.model, usage) or 0
        return self.prices.cost(planned.driver, planned.model, usage, at, planned.provider)


def _affordable(terms: Terms, planned: Planned, room: QuotaRemaining, at: int) -> int:
    """Returns the longest answer that the remaining amounts allow; they may be below zero."""
    output = planned.most_output
    if room.tokens is not None:
        output = min(output, room.tokens - planned.most_input)
    if room.money is None or output <= 0:
        return output
    highest, least = terms.most(planned, output, at), terms.most(planned, 0, at)
    if highest is None or least is None or highest <= room.money:
        return output
    # The price grows evenly with the answer; one less, because it is rounded.
    return (room.money - least) * output // (highest - least) - 1 if highest > least else 0


@dataclass(frozen=True, slots=True)
class MeteredHold:
    """The amounts reserved for one call; see `agentvm.runtime.billing.Hold`."""

    _terms: Terms
    _planned: Planned
    _held: QuotaHold
    _clock: Clock
    most_output: int
    """The longest answer allowed: at most the planned one, and shorter where little is left."""

    @property
    def warnings(self) -> tuple[QuotaWarning, ...]:
        return self._held.warnings

    def charge(self, usage: Usage) -> Charge:
        return self._terms.charge(self._planned, usage, self._clock())

    def settle(self, usage: Usage) -> Charge:
        charge = self.charge(usage)
        self._held.settle(usage.total, charge.price or 0)
        return charge

    def release(self) -> None:
        self._held.release()
