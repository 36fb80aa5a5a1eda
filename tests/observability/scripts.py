"""Turns whose every token, tool and failure is known beforehand."""

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

import anyio

from agentvm.drivers.base import MessageStarted, Prompt, TextChunk, TextStarted, UsageReported, UserEntry
from agentvm.drivers.scripted import Pause, ScriptStep, last_user_text, reply, tool_calls
from agentvm.errors import ProviderBadRequest, ProviderProtocolError
from agentvm.model.usage import NO_USAGE, Usage

Kind = Literal["plain", "tools", "refused", "cut", "stopped"]
KINDS: tuple[Kind, ...] = ("plain", "tools", "refused", "cut", "stopped")
TOOL_USAGE = 5
"""Tokens in that a scripted call for tools reports; out, one for each tool."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One turn. Its tools are called by its first model call, the good ones first."""

    kind: Kind
    usage: Usage
    good: int = 0
    bad: int = 0


@dataclass(slots=True)
class Sums:
    """What counts must say after some turns."""

    turns: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    tools: Counter[tuple[str, str]] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    usage: Usage = NO_USAGE
    first_tokens: int = 0

    def add(self, one: Planned) -> None:
        outcome = {"refused": "failed", "cut": "failed", "stopped": "interrupted"}.get(one.kind, "completed")
        self.turns[outcome] += 1
        if one.kind == "refused":
            self.errors["provider_bad_request"] += 1
            return
        if one.kind == "cut":
            self.errors["provider_protocol_error"] += 1
        self.calls[outcome] += 1
        self.first_tokens += 1
        self.usage += one.usage
        if one.kind == "tools":
            self.calls["completed"] += 1
            self.usage += Usage(input_tokens=TOOL_USAGE, output_tokens=one.good + one.bad)
            self.tools["good", "completed"] += one.good
            self.tools["other", "failed"] += one.bad


def plan(seed: int, turns: int) -> list[Planned]:
    dice = random.Random(seed)

    def usage() -> Usage:
        read, written, cached, stored, thought = (dice.randrange(1_000) for _ in range(5))
        # A call that is cut off is billed for what it said at least.
        return Usage(
            input_tokens=read + 1,
            output_tokens=written + 10,
            cache_read_tokens=cached,
            cache_write_tokens=stored,
            thinking_tokens=thought,
        )

    made = []
    for _ in range(turns):
        kind = dice.choice(KINDS)
        good, bad = (dice.randrange(1, 3), dice.randrange(2)) if kind == "tools" else (0, 0)
        made.append(Planned(kind, usage(), good, bad))
    return made


def play(planned: list[Planned], prompt: Prompt) -> list[ScriptStep]:
    """The user says the number of the turn; whether tools have answered is seen from who spoke last."""
    number = int(last_user_text(prompt))
    one = planned[number]
    begun: list[ScriptStep] = [MessageStarted("", "scripted"), TextStarted(), TextChunk("one"), UsageReported(one.usage)]
    match one.kind:
        case "refused":
            return [ProviderBadRequest("no")]
        case "cut":
            return [*begun, ProviderProtocolError("broken off")]
        case "stopped":
            return [*begun, Pause(anyio.Event())]
        case "tools" if isinstance(prompt.conversation[-1], UserEntry):
            good: list[tuple[str, str, dict[str, object]]] = [
                (f"call_{number}_{index}", "good", {"of": number, "index": index}) for index in range(one.good)
            ]
            bad: list[tuple[str, str, dict[str, object]]] = [
                (f"bad_{number}_{index}", "nobody", {"of": number, "index": index}) for index in range(one.bad)
            ]
            return tool_calls(*good, *bad)
        case _:
            return reply("well", " then", usage=one.usage)
