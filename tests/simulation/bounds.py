"""Bounds — constants of the runtime that some histories have smaller, so that the rare paths behind them are common, and
pauses of nodes that are longer, because most of what they do in a history is to look and find nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from agentvm.cluster import adoption, mailbox
from agentvm.runtime import channel, journal, replay
from tests.simulation.loop import Dice

BOUNDS: tuple[tuple[Any, str, tuple[int, ...]], ...] = (
    (channel, "MAX_FRAMES", (12, 60)),
    (journal, "TAIL_EVENTS_MAX", (10, 40)),
    (replay, "PAGE_EVENTS_MAX", (5, 30)),
)
PAUSES: tuple[tuple[Any, str, float], ...] = ((adoption, "POLL_SECONDS", 0.5), (mailbox, "POLL_SECONDS", 0.5))


@contextmanager
def smaller_bounds(dice: Dice) -> Iterator[None]:
    before = [(module, name, getattr(module, name)) for module, name, _ in (*BOUNDS, *PAUSES)]
    try:
        for module, name, seconds in PAUSES:
            setattr(module, name, seconds)
        for module, name, values in BOUNDS:
            if dice.happens(0.4):
                setattr(module, name, dice.choice(values))
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
