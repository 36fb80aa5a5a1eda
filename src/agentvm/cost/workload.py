"""Workload — the activity of the users of a server in a month."""

from typing import Annotated

import msgspec

from agentvm.errors import InvalidInput
from agentvm.model.base import Record

MONTH_SECONDS = 30.4375 * 86_400

Amount = Annotated[float, msgspec.Meta(ge=0, le=10**9)]
"""Infinity would make an unreadable bill."""


class Workload(Record, omit_defaults=False):
    """Users and their turns. The defaults are those of the price proof: a million users, thirty turns each a month."""

    users: Annotated[int, msgspec.Meta(ge=1, le=10**10)] = 1_000_000
    turns: Annotated[int, msgspec.Meta(ge=0, le=10**12)] = 30_000_000
    """Turns of all users in a month."""
    seconds: Amount = 20.0
    """Duration of a turn; nearly all of it is spent waiting for the model."""
    deltas: Amount = 100.0
    """Parts in which an answer arrives."""
    text_bytes: Amount = 1_300.0
    """Question and answer of a turn."""
    connected: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.001
    """Share of the users who are connected at the same time."""
    peak: Annotated[float, msgspec.Meta(ge=1, le=10**6)] = 5.0
    """Turns of the busiest minutes, as a multiple of the average."""
    tools: Amount = 0.05
    """Calls of tools in a sandbox, for each turn."""
    tool_seconds: Amount = 2.0
    """Duration of a call in a sandbox."""
    visits: Amount = 0.2
    """Connections that are opened, for each turn: a person opens a page, asks five questions and leaves."""
    months: Annotated[float, msgspec.Meta(gt=0, le=1_200)] = 3.0
    """Months for which conversations are kept."""

    @property
    def turns_per_second(self) -> float:
        return self.turns / MONTH_SECONDS

    @property
    def peak_turns_per_second(self) -> float:
        return self.turns_per_second * self.peak

    @property
    def streams(self) -> float:
        """Turns that are under way at the same time, in the busiest minutes."""
        return self.peak_turns_per_second * self.seconds


def checked(workload: Workload) -> Workload:
    """Returns the workload, or raises `InvalidInput` for a number that is out of its bounds."""
    try:
        return msgspec.convert(msgspec.to_builtins(workload), Workload)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"The workload is not possible: {error}") from None
