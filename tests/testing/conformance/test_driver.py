from collections.abc import Sequence

import pytest

from agentvm.drivers.base import (
    MessageStarted,
    MessageStopped,
    ModelOutput,
    TextChunk,
    TextStarted,
    TextStopped,
    ThinkingStarted,
    ToolCallStarted,
    ToolCallStopped,
    ToolInputChunk,
    UsageReported,
)
from agentvm.drivers.scripted import ScriptedDriver, ScriptStep, in_turn, reply
from agentvm.errors import ProviderAuthFailed, ProviderOverloaded
from agentvm.model.usage import NO_USAGE
from agentvm.testing.conformance import driver as conformance

START, END = MessageStarted("m", "x"), MessageStopped("end_turn")
CALL: list[ModelOutput] = [ToolCallStarted("a", "n"), ToolInputChunk("{}"), ToolCallStopped()]

GOOD: list[list[ModelOutput]] = [
    [START, END],
    [START, TextStarted(), TextStopped(), UsageReported(NO_USAGE), END],
    [START, UsageReported(NO_USAGE), TextStarted(), TextChunk("a"), TextStopped(), UsageReported(NO_USAGE), END],
    [START, *CALL, END],
]

BAD: list[list[ModelOutput]] = [
    [],
    [START],
    [END],
    [START, END, END],
    [START, START, END],
    [START, TextChunk("a"), END],
    [START, TextStarted(), END],
    [START, TextStarted(), ThinkingStarted(), END],
    [START, TextStarted(), TextChunk(""), TextStopped(), END],
    [START, TextStarted(), UsageReported(NO_USAGE), TextStopped(), END],
    [START, *CALL, *CALL, END],
    [START, ToolCallStarted("", "n"), ToolCallStopped(), END],
    [MessageStarted("", "x"), END],
]


@pytest.mark.parametrize("outputs", GOOD)
def test_the_grammar_accepts_what_is_in_order(outputs: Sequence[ModelOutput]) -> None:
    conformance.check_output_grammar(outputs)


@pytest.mark.parametrize("outputs", BAD)
def test_the_grammar_refuses_what_is_not(outputs: Sequence[ModelOutput]) -> None:
    with pytest.raises(AssertionError):
        conformance.check_output_grammar(outputs)


def test_a_call_that_was_cut_off_need_not_end() -> None:
    conformance.check_output_grammar([START, TextStarted(), TextChunk("a")], complete=False)


def playing(*steps: ScriptStep) -> ScriptedDriver:
    return ScriptedDriver(in_turn(steps))


async def test_an_answer_without_text_or_tokens_does_not_conform() -> None:
    for driver in (playing(START, END), playing(*reply("a", usage=NO_USAGE))):
        with pytest.raises(AssertionError):
            await conformance.check_text(driver)


async def test_a_failure_must_be_the_expected_one_and_keep_the_secret() -> None:
    driver = playing(START, ProviderOverloaded("busy: KEY"))
    asked = conformance.hello(driver)
    await conformance.check_failure(driver, asked, ProviderOverloaded)
    with pytest.raises(AssertionError, match="shows the key"):
        await conformance.check_failure(driver, asked, ProviderOverloaded, secret="KEY")
    with pytest.raises(AssertionError, match="instead of"):
        await conformance.check_failure(driver, asked, ProviderAuthFailed)
    with pytest.raises(AssertionError, match="ended well"):
        await conformance.check_failure(playing(START, END), asked, ProviderOverloaded)


async def test_a_socket_that_stays_open_does_not_conform() -> None:
    driver = playing(*reply("a"))

    async def closed() -> None:
        raise AssertionError("still open")

    with pytest.raises(AssertionError, match="still open"):
        await conformance.check_close_closes(driver, conformance.hello(driver), closed)
