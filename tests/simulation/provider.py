"""Provider — a model that says anything, and tools that do anything. Both remember what really happened."""

import re
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import anyio
import msgspec

from agentvm.drivers.base import (
    MessageStarted,
    MessageStopped,
    ModelOutput,
    Prompt,
    StopReason,
    TextChunk,
    TextStarted,
    TextStopped,
    ThinkingChunk,
    ThinkingStarted,
    ThinkingStopped,
    ToolCallStarted,
    ToolCallStopped,
    ToolInputChunk,
    ToolResultsEntry,
    ToolSpec,
    UsageReported,
    UserEntry,
)
from agentvm.drivers.scripted import last_user_text
from agentvm.errors import (
    ProviderAuthFailed,
    ProviderBadRequest,
    ProviderError,
    ProviderOverloaded,
    ProviderRateLimited,
    ProviderTimeout,
    ProviderUnreachable,
    ToolFailed,
)
from agentvm.model.usage import Usage
from agentvm.runtime.tools import ServerTools, Tool
from tests.simulation.loop import Dice
from tests.simulation.programs import Programs, run_program

Step = ModelOutput | ProviderError | float
"""A number is a pause in seconds."""

FOREVER = 100_000.0

FIRST_CALL = 100_000
"""Input tokens of the first call; the next has one more. So a bill says which call it is for."""
ERRORS = (ProviderBadRequest, ProviderOverloaded, ProviderRateLimited, ProviderTimeout, ProviderUnreachable)
REPEATABLE = "look"
ONCE = "save"
ASKED = "strike"
"""A tool whose calls wait for an approval, and that must not run twice."""
CLIENT = "pick"
PROGRAM = "program"
"""A tool whose calls are programs: they call the others."""
TOOL_SECONDS = 5.0
PROGRAM_SECONDS = 30.0
CLIENT_SECONDS = 20.0
"""Time that a client has for the result of its tool."""
_MESSAGE = re.compile(r"message (\d+)")
_SUMMED = re.compile(r"sum:([\d,]*)")


@dataclass(slots=True)
class ModelCall:
    """What one call came to, as the provider knows it."""

    number: int
    said: str
    """What the user said: each says something else, so this names the turn."""
    process: int
    driver: str = "simulated"
    reports: list[Usage] = field(default_factory=list)
    stopped: bool = False
    refused: bool = False
    """Answered with an error before anything was said: it costs nothing."""

    @property
    def reported(self) -> Usage | None:
        return self.reports[-1] if self.reports else None


@dataclass(slots=True)
class Provider:
    """The world beyond the process: outlives it."""

    dice: Dice
    calls: list[ModelCall] = field(default_factory=list)
    runs: Counter[str] = field(default_factory=Counter)
    """How often each call of a tool that must not be repeated was run."""
    faults: Counter[str] = field(default_factory=Counter)
    begins: Callable[[str], None] = lambda said: None
    """Told whenever something is begun for what a user said."""
    balance: Callable[[], int | None] = lambda: None
    """What the ledger has left of the tenant's wallet; None for one that is not prepaid."""
    overdrawn: int = 0
    """Calls that were admitted although nothing was left."""
    asked: Callable[[str, Prompt], None] = lambda said, prompt: None
    """Told of every prompt for an answer."""
    programs: Programs | None = None
    """What programs did; None where models write none."""


class SimulatedDriver:
    """One process's way to the provider; `alive` says whether that process still is."""

    default_model = "simulated"

    def __init__(self, provider: Provider, process: int, alive: Callable[[], bool], *, name: str = "simulated") -> None:
        self.name = name
        self._provider = provider
        self._process = process
        self._alive = alive

    def context_window(self, model: str) -> int:
        return 100_000

    async def run(self, prompt: Prompt) -> AsyncGenerator[ModelOutput, None]:
        if not self._alive():
            await anyio.sleep_forever()
        call, steps = self._begin(prompt)
        for said, step in enumerate(steps):
            if isinstance(step, float):
                await anyio.sleep(step)
                if not self._alive():
                    await anyio.sleep_forever()
            elif isinstance(step, ProviderError):
                call.refused = not any(not isinstance(before, float) for before in steps[:said])
                raise step
            else:
                if isinstance(step, UsageReported):
                    call.reports.append(step.usage)
                call.stopped = call.stopped or isinstance(step, MessageStopped)
                yield step

    def _begin(self, prompt: Prompt) -> tuple[ModelCall, list[Step]]:
        provider = self._provider
        said = "" if is_summing(prompt) else last_user_text(prompt)
        call = ModelCall(len(provider.calls), said, self._process, self.name)
        provider.calls.append(call)
        if is_summing(prompt):
            return call, _summary(provider, call, prompt)
        provider.begins(said)
        provider.asked(said, prompt)
        return call, _script(provider, call, sum(isinstance(one, ToolResultsEntry) for one in prompt.conversation))


def is_summing(prompt: Prompt) -> bool:
    return (prompt.system or "").startswith("You keep the record")


def numbers_in(text: str) -> set[int]:
    """Of the messages that a text repeats or sums up: a summary here says just that."""
    summed = (number for listed in _SUMMED.findall(text) for number in listed.split(",") if number)
    return {int(number) for number in (*_MESSAGE.findall(text), *summed)}


def told_in(prompt: Prompt) -> set[int]:
    """The messages of users that a prompt tells of, word for word or summed up."""
    return {number for said in prompt.conversation if isinstance(said, UserEntry) for number in numbers_in(str(said.content))}


def open_tools(provider: Provider, alive: Callable[[], bool], *, repeatable: Sequence[str] = (REPEATABLE,)) -> ServerTools:
    """The tools of one process. What they do is in the arguments."""

    def tool(name: str) -> Tool:
        async def run(arguments: dict[str, object]) -> object:
            if not alive():
                await anyio.sleep_forever()
            if name in (ONCE, ASKED):
                provider.runs[str(arguments["id"])] += 1
            call_id = str(arguments["id"])
            said = provider.calls[int(call_id.split("_")[1])].said
            if provider.programs is not None:
                provider.programs.begins(said, call_id, is_once=name in (ONCE, ASKED))
            provider.begins(said)
            await anyio.sleep(float(str(arguments["seconds"])))
            if not alive():
                await anyio.sleep_forever()
            if arguments["fails"]:
                raise ToolFailed(f"{name} does not work today")
            return {"done": call_id} if provider.programs is None else provider.programs.result_of(call_id)

        spec = ToolSpec(name=name, description=name, input_schema={"type": "object"})
        return Tool(
            spec=spec,
            run=run,
            timeout_seconds=CLIENT_SECONDS if name == CLIENT else TOOL_SECONDS,
            repeatable=name in repeatable,
            effect="destructive" if name == ASKED else "write",
            waits_for="client" if name == CLIENT else None,
        )

    names = (REPEATABLE, ONCE, ASKED, CLIENT)
    tools = [tool(name) for name in names]
    if provider.programs is None:
        return ServerTools(tools, default=names)
    program = replace(
        tool(PROGRAM),
        call=partial(run_program, provider.programs, alive),
        timeout_seconds=PROGRAM_SECONDS,
        repeatable=True,
        beside=lambda specs: ", ".join(spec.name for spec in specs),
    )
    return ServerTools([*tools, program], default=(*names, PROGRAM))


def _script(provider: Provider, call: ModelCall, rounds: int) -> list[Step]:
    dice = provider.dice
    steps: list[Step] = [dice.pause(0.1), MessageStarted(f"provider_{call.number}", "simulated-1")]
    if dice.happens(0.3):
        steps.append(UsageReported(Usage(input_tokens=FIRST_CALL + call.number, output_tokens=1)))
    if dice.happens(0.1):
        steps += [ThinkingStarted(), ThinkingChunk("hm"), ThinkingChunk(" hm"), ThinkingStopped("signed")]
    calls = dice.choice((1, 1, 2, 3)) if rounds < 3 and dice.happens(0.2) else 0
    if not calls or dice.happens(0.6):
        steps += _text(dice, call)
    for number in range(calls):
        steps += _tool_call(provider, call, number)
    if dice.happens(0.9):
        steps.append(UsageReported(Usage(input_tokens=FIRST_CALL + call.number, output_tokens=dice.randint(100, 300))))
    reason: StopReason = "tool_use" if calls and dice.happens(0.9) else "end_turn"
    steps.append(MessageStopped("max_tokens" if dice.happens(0.05) else reason))
    return _spoil(provider, steps) if dice.happens(0.18) else steps


def _summary(provider: Provider, call: ModelCall, prompt: Prompt) -> list[Step]:
    dice = provider.dice
    provider.faults["summaries"] += 1
    text = f"sum:{','.join(str(number) for number in sorted(told_in(prompt)))};"
    middle = dice.randrange(len(text))
    steps: list[Step] = [dice.pause(0.1), MessageStarted(f"provider_{call.number}", "simulated-1"), TextStarted()]
    steps += [TextChunk(text[:middle]), dice.pause(0.3), TextChunk(text[middle:]), TextStopped()]
    if dice.happens(0.9):
        steps.append(UsageReported(Usage(input_tokens=FIRST_CALL + call.number, output_tokens=dice.randint(100, 300))))
    steps.append(MessageStopped("end_turn"))
    return _spoil(provider, steps) if dice.happens(0.18) else steps


def _spoil(provider: Provider, steps: list[Step]) -> list[Step]:
    """The call goes wrong somewhere on its way."""
    dice = provider.dice
    kind = dice.choice(("error", "error", "outage", "outage", "outage", "stall", "truncated"))
    provider.faults[f"provider {kind}"] += 1
    if kind == "outage":
        error = dice.choice((ProviderOverloaded, ProviderRateLimited, ProviderAuthFailed))
        return [error("the provider does not work today", retry_after=dice.choice((None, 5.0, 30.0, 60.0)))]
    kept = steps[: dice.randrange(len(steps))]
    if kind == "error":
        return [*kept, dice.choice(ERRORS)("the provider does not work today")]
    return [*kept, FOREVER] if kind == "stall" else kept


def _text(dice: Dice, call: ModelCall) -> list[Step]:
    steps: list[Step] = [TextStarted(), TextChunk(f"#{call.number} ")]
    for _ in range(dice.choice((0, 1, 2, 4))):
        if dice.happens(0.3):
            steps.append(dice.pause(0.05))
        steps.append(TextChunk(dice.choice(("word ", "Wörter ", "字", "🙂", "", "\n"))))
    return [*steps, TextStopped()]


def _tool_call(provider: Provider, call: ModelCall, number: int) -> list[Step]:
    dice, call_id = provider.dice, f"call_{call.number}_{number}"
    arguments = {"id": call_id, "said": call.said, **_arguments(dice, call_id)}
    name = dice.choice((ONCE, ONCE, REPEATABLE, ASKED, ASKED, CLIENT, "nobody"))
    if provider.programs is not None and dice.happens(0.4):
        name, arguments = PROGRAM, _program(dice, call_id)
    body = msgspec.json.encode(arguments).decode()
    middle = len(body) // 2
    return [ToolCallStarted(call_id, name), ToolInputChunk(body[:middle]), ToolInputChunk(body[middle:]), ToolCallStopped()]


def _arguments(dice: Dice, call_id: str) -> dict[str, object]:
    seconds = FOREVER if dice.happens(0.05) else dice.pause(0.3)
    return {"id": call_id, "seconds": seconds, "fails": dice.happens(0.15)}


def _program(dice: Dice, call_id: str) -> dict[str, object]:
    names = (ONCE, ONCE, REPEATABLE, REPEATABLE, ASKED, CLIENT, "nobody")
    calls = [(dice.choice(names), _arguments(dice, f"{call_id}.{number}")) for number in range(1, dice.randint(2, 6))]
    return {"id": call_id, "calls": calls, "fickle": dice.happens(0.1), "gives_up": dice.happens(0.1)}
