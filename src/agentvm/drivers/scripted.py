"""Scripted — a driver that plays a script: for tests, benchmarks and offline demos.

A script decides the outputs of each call from its prompt, so that a whole conversation, with tool calls and
failures, can be written down. The default script echoes the user.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import msgspec

from agentvm.drivers.base import (
    DriverSettings,
    MessageStarted,
    MessageStopped,
    ModelOutput,
    Prompt,
    StopReason,
    TextChunk,
    TextStarted,
    TextStopped,
    ToolCallStarted,
    ToolCallStopped,
    ToolInputChunk,
    UsageReported,
)
from agentvm.drivers.conversation import last_user_text as last_user_text
from agentvm.errors import ProviderError
from agentvm.model.usage import Usage


class Pause(msgspec.Struct, frozen=True):
    """Waits for the event before the next output: how a test holds a turn open."""

    until: anyio.Event


ScriptStep = ModelOutput | Pause | ProviderError
Script = Callable[[Prompt], Iterable[ScriptStep]]


def reply(
    *deltas: str, stop_reason: StopReason = "end_turn", message_id: str = "", usage: Usage | None = None
) -> list[ScriptStep]:
    """A text answer, one delta per argument. An empty `message_id` is replaced by a unique one."""
    return [
        MessageStarted(message_id, "scripted"),
        TextStarted(),
        *(TextChunk(delta) for delta in deltas),
        TextStopped(),
        UsageReported(usage or Usage(input_tokens=len(deltas), output_tokens=len(deltas))),
        MessageStopped(stop_reason),
    ]


def tool_calls(*calls: tuple[str, str, dict[str, object]], text: str = "") -> list[ScriptStep]:
    """An answer that calls tools: `(call id, tool name, input)` each, after optional text."""
    steps: list[ScriptStep] = [MessageStarted("", "scripted")]
    if text:
        steps += [TextStarted(), TextChunk(text), TextStopped()]
    for call_id, name, arguments in calls:
        body = msgspec.json.encode(arguments).decode()
        middle = len(body) // 2
        halves = [ToolInputChunk(body[:middle]), ToolInputChunk(body[middle:])]
        steps += [ToolCallStarted(call_id, name), *halves, ToolCallStopped()]
    steps += [UsageReported(Usage(input_tokens=5, output_tokens=len(calls))), MessageStopped("tool_use")]
    return steps


def in_turn(*answers: Sequence[ScriptStep]) -> Script:
    """Plays the answers, one per call, for any prompt; the last one repeats."""
    calls = iter(answers)
    last: Sequence[ScriptStep] = ()

    def script(prompt: Prompt) -> Iterable[ScriptStep]:
        nonlocal last
        last = next(calls, last)
        return last

    return script


def echo(prompt: Prompt) -> Iterable[ScriptStep]:
    """Repeats the user's text, word by word."""
    words = last_user_text(prompt).split(" ")
    return reply(*(word if index == 0 else f" {word}" for index, word in enumerate(words)))


DEFAULT_MODEL = "scripted"
PROMPTS_MAX = 100
"""Default number of prompts that a driver remembers."""


class ScriptedDriver:
    """Plays a script and remembers the last prompts it was given, at most `prompts_max`."""

    name = "scripted"
    default_model = DEFAULT_MODEL

    def __init__(self, script: Script = echo, *, window: int = 100_000, prompts_max: int = PROMPTS_MAX) -> None:
        self._script = script
        self._window = window
        self._calls = 0
        self._prompts_max = prompts_max
        self.prompts: list[Prompt] = []
        self.closed_early = 0
        """Calls that were abandoned before their end."""

    def context_window(self, model: str) -> int:
        return self._window

    async def run(self, prompt: Prompt) -> AsyncGenerator[ModelOutput, None]:
        self._calls += 1
        self.prompts.append(prompt)
        del self.prompts[: -self._prompts_max]
        message_id = f"msg_scripted_{self._calls}"
        finished = False
        try:
            for step in self._script(prompt):
                # A real provider always yields to the loop between outputs; so does the double.
                await anyio.lowlevel.checkpoint()
                match step:
                    case Pause(until=event):
                        await event.wait()
                    case ProviderError():
                        raise step
                    case MessageStarted(message_id="", model=model):
                        yield MessageStarted(message_id, model)
                    case _:
                        yield step
            finished = True
        finally:
            self.closed_early += not finished


@asynccontextmanager
async def open_driver(settings: DriverSettings) -> AsyncIterator[ScriptedDriver]:
    yield ScriptedDriver()
