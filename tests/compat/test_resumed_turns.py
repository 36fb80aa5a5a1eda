"""A restart in the middle of an answer, as the user interfaces of 1.8 and 1.9 show it.

The packages themselves are not obtainable here. `Messages` is the reducer of `@agentxjs/ui` 1.8: deltas are appended to one
text that streams, and a finished message takes its place. `Blocks` is that of 1.9: deltas are appended to the open block of the
bubble, and a finished message only closes it, so what was appended stays. Neither knows of restarts, and neither looks at what
`message_start` says.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.support.serving import restartable
from tests.support.wire import Browser, Client19, Json, named

from agentvm.drivers.base import (
    MessageStarted,
    Prompt,
    TextChunk,
    TextStarted,
    TextStopped,
    ToolCallStarted,
    ToolCallStopped,
    ToolInputChunk,
    UserEntry,
)
from agentvm.drivers.scripted import Pause, ScriptStep, reply
from agentvm.errors import ProviderBadRequest


@dataclass
class Messages:
    """What 1.8 shows: finished messages and cards, then what streams."""

    shown: list[str] = field(default_factory=list)
    streaming: str = ""
    cards: dict[str, str] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)

    def dispatch(self, kind: str, data: Json) -> None:
        match kind:
            case "text_delta":
                self.streaming += data["text"]
            case "assistant_message":
                if data["id"] not in self.known:
                    self.shown.append(text_of(data))
                self.known.add(data["id"])
                self.streaming = ""
            case "tool_call_message":
                self.cards[data["toolCall"]["id"]] = "executing"
            case "tool_result_message":
                self.cards[data["toolCallId"]] = "done"
            case "error_message":
                self.streaming = ""
            case _:
                pass

    @property
    def text(self) -> str:
        return "".join(self.shown) + self.streaming


@dataclass
class Blocks:
    """What 1.9 shows: the blocks of the bubble that was opened by the answer to the send."""

    shown: list[str] = field(default_factory=list)
    open: str | None = None
    streams: bool = True
    cards: dict[str, str] = field(default_factory=dict)

    def dispatch(self, kind: str, data: Json) -> None:
        match kind:
            case "text_delta" if self.streams:
                self.open = (self.open or "") + data["text"]
            case "assistant_message":
                self._finish()
            case "conversation_end":
                self._finish()
                self.streams = False
            case "tool_call_message":
                self._finish()
                self.cards[data["toolCall"]["id"]] = "executing"
            case "tool_result_message" if data["toolCallId"] in self.cards:
                self.cards[data["toolCallId"]] = "done"
            case "error_message":
                # The block that was open keeps what it had when it was opened, which is nothing.
                self.open, self.streams = None, False
            case _:
                pass

    def _finish(self) -> None:
        if self.open is not None:
            self.shown.append(self.open)
            self.open = None

    @property
    def text(self) -> str:
        return "".join(self.shown) + (self.open or "")


def text_of(message: Json) -> str:
    return "".join(part["text"] for part in message["content"] if part["type"] == "text")


class Model:
    """Answers the first time up to where it waits, and after the restart with something else."""

    def __init__(self, first: Sequence[ScriptStep], *later: Sequence[ScriptStep]) -> None:
        self._answers = iter([[*first, Pause(anyio.Event())], *later])
        self.prompts: list[Prompt] = []

    def __call__(self, prompt: Prompt) -> Iterable[ScriptStep]:
        self.prompts.append(prompt)
        return next(self._answers)


@dataclass
class Seen:
    """What a client has shown, live and after a reload."""

    messages: Messages
    blocks: Blocks
    history: list[Json]

    @property
    def reloaded(self) -> str:
        return "".join(text_of(one) for one in self.history if one["subtype"] == "assistant")


@asynccontextmanager
async def restarted(model: Model, tmp_path: Path, until: Callable[[Client19], Any]) -> AsyncIterator[Seen]:
    """One turn during which the server is restarted, as a browser that comes back sees it."""
    async with restartable(model, tmp_path) as server:
        browser = Browser(named((await server.start()).url))
        async with browser.connected() as here:
            record = await here.image()
            await here.request("message_send_request", imageId=record["imageId"], content="go")
            await until(here)
            await server.stop()
            await here.wait_closed()
        await server.start()
        async with browser.connected() as back:
            await back.wait("turn_response")
            history = (await back.request("image_messages_request", imageId=record["imageId"]))["messages"]
            seen = Seen(Messages(), Blocks(), history)
            for event in (*here.events, *back.events):
                if event.get("context", {}).get("imageId") == record["imageId"]:
                    seen.messages.dispatch(event["type"], event["data"])
                    seen.blocks.dispatch(event["type"], event["data"])
            yield seen


BEGUN: list[ScriptStep] = [MessageStarted("", "m"), TextStarted(), TextChunk("The answer "), TextChunk("is ")]
WHOLE = "The answer is 42."


async def second_delta(here: Client19) -> None:
    await here.wait("text_delta", 2)


@pytest.mark.parametrize(
    "again",
    [
        pytest.param(reply("42", "."), id="goes on where it stopped"),
        pytest.param(reply("The ", "answer is 4", "2."), id="says all of it again"),
    ],
)
async def test_an_answer_that_a_restart_cut_off_is_shown_once_and_whole(tmp_path: Path, again: list[ScriptStep]) -> None:
    model = Model(BEGUN, again)
    async with restarted(model, tmp_path, second_delta) as seen:
        assert (seen.messages.text, seen.blocks.text, seen.reloaded) == (WHOLE, WHOLE, WHOLE)
        assert len(seen.blocks.shown) == 1
    # The model knows what the user has read, and that it is to go on from there.
    assert [prompt.begun for prompt in model.prompts] == ["", "The answer is "]
    assert model.prompts[1].conversation == (UserEntry(content="go"),)


async def test_a_model_that_only_begins_alike_has_gone_on(tmp_path: Path) -> None:
    async with restarted(Model(BEGUN, reply("The", " number is 42.")), tmp_path, second_delta) as seen:
        whole = "The answer is The number is 42."
        assert (seen.messages.text, seen.blocks.text, seen.reloaded) == (whole, whole, whole)


async def test_tools_that_were_asked_for_before_a_restart_are_run_and_no_card_is_left_over(tmp_path: Path) -> None:
    asks: list[ScriptStep] = [
        MessageStarted("", "m"),
        TextStarted(),
        TextChunk("Let me see. "),
        TextStopped(),
        ToolCallStarted("call_1", "calculator"),
        ToolInputChunk('{"expression": "6*7"}'),
        ToolCallStopped(),
    ]

    async def called(here: Client19) -> None:
        await here.wait("tool_call_message")

    model = Model(asks, reply("It is 42."))
    async with restarted(model, tmp_path, called) as seen:
        assert (seen.messages.text, seen.blocks.text, seen.reloaded) == ("Let me see. It is 42.",) * 3
        assert seen.messages.cards == seen.blocks.cards == {"call_1": "done"}
    assert len(model.prompts) == 2


async def test_a_call_that_was_cut_off_in_its_input_is_asked_for_again(tmp_path: Path) -> None:
    asks: list[ScriptStep] = [*BEGUN, TextStopped(), ToolCallStarted("call_1", "calculator"), ToolInputChunk('{"expr')]

    async def calling(here: Client19) -> None:
        await here.wait("input_json_delta")

    async with restarted(Model(asks, reply("42.")), tmp_path, calling) as seen:
        assert (seen.messages.text, seen.blocks.text, seen.reloaded) == (WHOLE, WHOLE, WHOLE)
        assert seen.blocks.cards == {}


async def test_what_was_read_of_an_answer_stays_when_nobody_can_go_on_with_it(tmp_path: Path) -> None:
    async with restarted(Model(BEGUN, [ProviderBadRequest("no")]), tmp_path, second_delta) as seen:
        assert (seen.messages.text, seen.blocks.text, seen.reloaded) == ("The answer is ",) * 3
        assert seen.history[-1]["subtype"] == "error"
