"""Money — integers of nano-USD. A float never holds any, so sums are exact."""

from decimal import ROUND_HALF_EVEN, Decimal

NANO = 1_000_000_000
"""Nano-USD in one dollar."""


def to_nano(amount: Decimal) -> int:
    """Dollars as nano-USD, rounded half to even: once, where an amount enters the books."""
    return int((amount * NANO).to_integral_value(rounding=ROUND_HALF_EVEN))


def dollars(nano: int) -> str:
    """For people: `$1.05`, `$0.000213`. Exact, without zeros that say nothing."""
    sign, whole, rest = "-" if nano < 0 else "", abs(nano) // NANO, abs(nano) % NANO
    cents = f"{rest:09d}".rstrip("0").ljust(2, "0")
    return f"{sign}${whole:,}.{cents}"
