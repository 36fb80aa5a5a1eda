"""Money — integers of nano-USD. A float never holds any, so sums are exact."""

from decimal import ROUND_HALF_EVEN, Decimal

from agentvm.model.base import Record
from agentvm.model.usage import Usage

DOLLAR_NANO = 1_000_000_000
"""Nano-USD in one dollar."""


def to_nano(amount: Decimal) -> int:
    """Dollars as nano-USD, rounded half to even: once, where an amount enters the books."""
    return int((amount * DOLLAR_NANO).to_integral_value(rounding=ROUND_HALF_EVEN))


def from_nano(nano: int) -> Decimal:
    """Nano-USD as dollars, exactly."""
    return Decimal(nano) / DOLLAR_NANO


def dollars(nano: int) -> str:
    """Formats an amount for people: `$1.05`, `$0.000213`. Exact, without trailing zeros."""
    sign, units, rest = "-" if nano < 0 else "", abs(nano) // DOLLAR_NANO, abs(nano) % DOLLAR_NANO
    cents = f"{rest:09d}".rstrip("0").ljust(2, "0")
    return f"{sign}${units:,}.{cents}"


_MILLION = Decimal(1_000_000)


class ModelRate(Record):
    """An operator's own price of a model, in dollars per million tokens; an absent price equals that of plain input."""

    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None
    cache_write: Decimal | None = None
    web_search: Decimal | None = None
    """Dollars per thousand searches that the provider makes; its own price when unset."""

    def cost(self, usage: Usage) -> int:
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        # Thinking is part of the output, for every provider.
        total = (
            usage.input_tokens * self.input
            + usage.output_tokens * self.output
            + usage.cache_read_tokens * read
            + usage.cache_write_tokens * write
        )
        return to_nano(total / _MILLION + usage.web_searches * (self.web_search or Decimal(0)) / 1000)
