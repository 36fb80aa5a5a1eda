"""Placed calls — why a tool call was made, denied or held, and where its code ran: at most a kilobyte each."""

from agentvm.model.base import Record
from agentvm.model.ids import SessionId, TurnId
from agentvm.model.tier import Placed, TierName, Unplaced

POLICY_CHARACTERS_MAX = 250
WHY_CHARACTERS_MAX = 80
"""Characters of the verdict on one tier."""


class PlacedCall(Record):
    """The reasons of one tool call."""

    turn_id: TurnId
    call_id: str
    tool: str
    policy: str
    """The rule that decided about the call."""
    tier: TierName | None = None
    """The tier that ran it; `inline` for a call that runs no foreign code. Absent when it was not made, or no tier fits."""
    price: int = 0
    """Price of a second, in billionths of a dollar."""
    start_ms: float = 0.0
    why: tuple[tuple[str, str], ...] = ()
    """The verdict on each tier."""
    tool_ms: int = 0
    """Time of the turn's tools so far, which continues counting after a restart."""
    is_nested: bool = False
    """Whether a program made the call."""
    session_id: SessionId | None = None
    """The session of the sub-agent that has worked on it."""


def placed_call(turn_id: TurnId, call_id: str, tool: str, policy: str, placed: Placed | Unplaced | None) -> PlacedCall:
    """Returns the reasons of a call, cut to their size; `placed` is None for one that has not run."""
    chosen = placed if isinstance(placed, Placed) else None
    return PlacedCall(
        turn_id=turn_id,
        call_id=call_id,
        tool=tool,
        policy=policy[:POLICY_CHARACTERS_MAX],
        tier=None if chosen is None else chosen.tier,
        price=0 if chosen is None else chosen.price,
        start_ms=0.0 if chosen is None else chosen.start_ms,
        why=() if placed is None else tuple((tier, text[:WHY_CHARACTERS_MAX]) for tier, text in placed.why),
    )
