"""Driver conformance — the rules of `agentvm.drivers.base.Driver`, as plain checks that any driver's tests call.

`check_output_grammar` is rule 1 as a table: which output may follow in which state. The other checks run a driver whose
provider is scripted, or known, to answer as the check's name says.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing

import anyio
import msgspec

from agentvm.drivers.base import (
    Driver,
    MessageStarted,
    MessageStopped,
    ModelOutput,
    Prompt,
    ProviderContentReported,
    ProviderResult,
    TextChunk,
    TextStarted,
    TextStopped,
    ThinkingChunk,
    ThinkingStarted,
    ThinkingStopped,
    ToolCallStarted,
    ToolCallStopped,
    ToolInputChunk,
    UsageReported,
    UserEntry,
)
from agentvm.errors import ProviderError
from agentvm.model.usage import Usage

_BETWEEN: dict[type[ModelOutput], str] = {
    TextStarted: "text",
    ThinkingStarted: "thinking",
    ToolCallStarted: "tool call",
    ProviderResult: "between",
    ProviderContentReported: "between",
    UsageReported: "between",
    MessageStopped: "stopped",
}

GRAMMAR: dict[str, dict[type[ModelOutput], str]] = {
    "idle": {MessageStarted: "between"},
    "between": _BETWEEN,
    "text": {TextChunk: "text", TextStopped: "between"},
    "thinking": {ThinkingChunk: "thinking", ThinkingStopped: "between"},
    "tool call": {ToolInputChunk: "tool call", ToolCallStopped: "between"},
    "stopped": {},
}
"""State -> output -> next state. A call that ends well ends in `stopped`."""


def hello(driver: Driver, text: str = "Say hello.", *, max_tokens: int = 64) -> Prompt:
    """A small prompt for the driver's default model."""
    return Prompt(model=driver.default_model, conversation=(UserEntry(content=text),), max_tokens=max_tokens)


def check_output_grammar(outputs: Sequence[ModelOutput], *, complete: bool = True) -> None:
    """Rules 1 and 5. `complete=False` for a call that was cut off: its outputs must still be in order."""
    state = "idle"
    call_ids: set[str] = set()
    for position, output in enumerate(outputs):
        allowed = GRAMMAR[state]
        assert type(output) in allowed, f"output {position}: {output!r} cannot follow in state {state!r}"
        state = allowed[type(output)]
        match output:
            case MessageStarted(message_id=message_id, model=model):
                assert message_id, "a message without an id"
                assert model, "a message without a model"
            case ToolCallStarted(call_id=call_id, name=name):
                assert call_id, "a tool call without an id"
                assert name, "a tool call without a name"
                assert call_id not in call_ids, f"two tool calls have the id {call_id!r}"
                call_ids.add(call_id)
            case TextChunk(text=text) | ThinkingChunk(text=text) | ToolInputChunk(partial_json=text):
                assert text, "an empty delta"
            case _:
                pass
    assert not complete or state == "stopped", f"the outputs end in state {state!r}"


async def collect(driver: Driver, prompt: Prompt) -> list[ModelOutput]:
    """The outputs of one call that ends well, checked against the grammar."""
    outputs: list[ModelOutput] = []
    async with aclosing(driver.run(prompt)) as run:
        async for output in run:
            outputs.append(output)
    check_output_grammar(outputs)
    return outputs


def text_of(outputs: Sequence[ModelOutput]) -> str:
    return "".join(output.text for output in outputs if isinstance(output, TextChunk))


def thinking_of(outputs: Sequence[ModelOutput]) -> str:
    return "".join(output.text for output in outputs if isinstance(output, ThinkingChunk))


def usage_of(outputs: Sequence[ModelOutput]) -> Usage:
    """The last report."""
    reports = [output.usage for output in outputs if isinstance(output, UsageReported)]
    assert reports, "no usage was reported"
    return reports[-1]


def stop_reason_of(outputs: Sequence[ModelOutput]) -> str:
    last = outputs[-1]
    assert isinstance(last, MessageStopped), f"the last output is {last!r}"
    return last.stop_reason


def calls_of(outputs: Sequence[ModelOutput]) -> list[tuple[str, str, dict[str, object]]]:
    """The tool calls: id, name and decoded input."""
    calls: list[tuple[str, str, dict[str, object]]] = []
    started, body = ToolCallStarted("", ""), ""
    for output in outputs:
        match output:
            case ToolCallStarted():
                started, body = output, ""
            case ToolInputChunk(partial_json=piece):
                body += piece
            case ToolCallStopped():
                calls.append((started.call_id, started.name, msgspec.json.decode(body, type=dict[str, object])))
            case _:
                pass
    return calls


async def check_text(driver: Driver, prompt: Prompt | None = None) -> None:
    """A plain question gets text, a count of tokens and an end."""
    with anyio.fail_after(60):
        outputs = await collect(driver, prompt or hello(driver))
    assert text_of(outputs), "no text"
    usage = usage_of(outputs)
    assert usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens > 0, "a prompt that cost nothing"
    assert usage.output_tokens > 0, "an answer that cost nothing"
    assert stop_reason_of(outputs) in ("end_turn", "max_tokens")


async def check_tool_calls(driver: Driver, prompt: Prompt, names: Sequence[str]) -> None:
    """The provider calls these tools; each call has whole JSON for its input."""
    with anyio.fail_after(60):
        outputs = await collect(driver, prompt)
    assert [name for _, name, _ in calls_of(outputs)] == list(names)
    assert stop_reason_of(outputs) == "tool_use"


async def check_failure(driver: Driver, prompt: Prompt, expected: type[ProviderError], *, secret: str = "") -> ProviderError:
    """Rule 2: the call fails with this error, the outputs before it are in order, and its text holds no secret."""
    outputs: list[ModelOutput] = []
    failure: ProviderError | None = None
    try:
        with anyio.fail_after(60):
            async with aclosing(driver.run(prompt)) as run:
                async for output in run:
                    outputs.append(output)
    except ProviderError as error:
        failure = error
    assert failure is not None, f"the call ended well instead of raising {expected.__name__}"
    assert type(failure) is expected, f"{type(failure).__name__} instead of {expected.__name__}: {failure}"
    assert str(failure), "an error without text"
    assert not secret or secret not in f"{failure} {failure!r}", "the error shows the key"
    check_output_grammar(outputs, complete=False)
    return failure


async def check_close_closes(driver: Driver, prompt: Prompt, closed: Callable[[], Awaitable[object]]) -> None:
    """Rule 3: closing the iterator after its first output closes the provider's socket."""
    with anyio.fail_after(60):
        async with aclosing(driver.run(prompt)) as run:
            assert isinstance(await anext(run), MessageStarted)
    with anyio.fail_after(2):
        await closed()


async def check_cancel_closes(driver: Driver, prompt: Prompt, closed: Callable[[], Awaitable[object]]) -> None:
    """Rule 3: cancelling the reader while it waits closes the provider's socket. The provider must stall."""
    begun = anyio.Event()

    async def read() -> None:
        async with aclosing(driver.run(prompt)) as run:
            async for _ in run:
                begun.set()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await begun.wait()
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
    with anyio.fail_after(2):
        await closed()


async def check_parallel_calls(driver: Driver, count: int = 4) -> None:
    """Calls do not wait for, nor mix with, each other."""

    async def ask(number: int) -> None:
        await check_text(driver, hello(driver, f"Say the number {number}."))

    async with anyio.create_task_group() as tasks:
        for number in range(count):
            tasks.start_soon(ask, number)
