"""Quota part — the part of a limit that one node of a cluster may use, and the part that it needs."""

from typing import Final, Literal, NamedTuple

WALLET: Final = "wallet"
"""Stands in the place of a metric: the money of a wallet is shared like a limit."""
EARLIER_MS = 60_000
"""Entries of a node may be that much older than its start: the clocks of machines differ."""
ENTERED = frozenset({"tokens_per_day", "tokens_per_month", "budget_per_month", "sandbox_seconds_per_day", WALLET})
"""Metrics whose use is in the ledger."""

How = Literal["whole", "partly", "forced"]
"""A part that is needed as a whole, or as much of it as there is; `forced` counts beyond the limit, too."""


class LimitKey(NamedTuple):
    """A limit in one window. `user_id` is empty for a limit of the tenant; `ends` is None without a window."""

    metric: str
    user_id: str
    begins: int
    ends: int | None

    @property
    def is_counted_here(self) -> bool:
        """Whether only the node knows its use in a window: requests are in no ledger."""
        return self.ends is not None and self.metric not in ENTERED


class PartNeed(NamedTuple):
    """The need of a node: the used and reserved amount, and how much more. `limit` is None if the limit only warns."""

    used: int
    adding: int
    limit: int | None
    soft: int | None = None
    how: How = "whole"
    is_new: bool = False
    """Whether the node does not know its part: it has counted in the window before, or never."""
