"""Budget — the limits of one turn, checked before each model call against the messages that the turn has stored. Pure.

It is checked against the history and not against a counter, so a turn that continues after a crash has no second budget.
"""

from dataclasses import replace

from agentvm.errors.bounds import TurnLimitReached
from agentvm.model.ledger import NO_USE, TreeUse
from agentvm.model.limits import Limits
from agentvm.model.money import dollars, from_nano
from agentvm.model.turn import TurnBudget
from agentvm.runtime.recovery.progress import Done


def lowered(limits: Limits, own: TurnBudget | None) -> Limits:
    """Returns the limits of a turn that has bounds of its own: of each the lower."""
    if own is None:
        return limits
    return replace(
        limits,
        steps=_least(limits.steps, own.steps),
        turn_tokens=_least(limits.turn_tokens, own.tokens),
        tool_calls=_least(limits.tool_calls, own.tool_calls),
        turn_cost=limits.turn_cost if own.cost is None else min(limits.turn_cost, from_nano(own.cost)),
    )


def _least(limit: int, own: int | None) -> int:
    return limit if own is None else min(limit, own)


def check(limits: Limits, done: Done, cost: int, tool_seconds: float = 0.0, others: TreeUse = NO_USE) -> None:
    """`TurnLimitReached` when the turn must not call the model again; `cost` is that of its usage, in nano-USD.

    `tool_seconds` is the time of its tools. Calls of its programs are refused beyond the limit, and do not end it. `others` is
    the use of the agents that draw on the same budget: those that it has called, and those that it was called by.
    """
    steps, tokens, cost = done.steps + others.steps, done.usage.total + others.tokens, cost + others.cost
    tool_calls = len(done.call_ids) + others.tool_calls
    if steps >= limits.steps:
        raise TurnLimitReached(f"The turn was stopped after {steps} model calls, the most that one turn may make")
    if tokens >= limits.turn_tokens:
        raise TurnLimitReached(
            f"The turn was stopped because it has used {tokens:,} tokens; one turn may use {limits.turn_tokens:,}"
        )
    if cost >= limits.turn_cost_nano:
        most = dollars(limits.turn_cost_nano)
        raise TurnLimitReached(f"The turn was stopped because it has cost {dollars(cost)}; one turn may cost {most}")
    if tool_calls >= limits.tool_calls:
        raise TurnLimitReached(f"The turn was stopped after {tool_calls} tool calls, the most that one turn may make")
    if tool_seconds >= limits.tool_seconds:
        raise TurnLimitReached(f"The turn was stopped because its tools have run for {tool_seconds:.0f} seconds")
    name, times = done.most_repeated
    if times >= limits.repeats:
        raise TurnLimitReached(f"The turn was stopped because the model called {name} {times} times with the same input")
