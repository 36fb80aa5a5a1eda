"""Whatever goes wrong in a turn ends that turn, once, and nothing else."""

import logging
from collections.abc import AsyncGenerator, Callable

import anyio
import pytest
from tests.runtime.fixtures import World, open_world, tool, types

from agentvm.drivers.base import MessageStarted, MessageStopped, ModelOutput, Prompt, TextChunk, TextStarted, ToolInputChunk
from agentvm.drivers.scripted import Pause, ScriptedDriver, ScriptStep, in_turn, reply, tool_calls
from agentvm.errors import AgentVMError, ProviderAuthFailed, ProviderOverloaded, StoreFailed, ToolFailed
from agentvm.model.limits import Limits
from agentvm.model.message import AssistantMessage, ErrorMessage, ToolResultMessage

Heard = list[dict[str, object]]


async def ok(arguments: dict[str, object]) -> object:
    return "fine"


async def crash(arguments: dict[str, object]) -> object:
    raise ZeroDivisionError("a bug in the tool")


async def hang(arguments: dict[str, object]) -> object:
    await anyio.sleep_forever()
    return None


async def fail(arguments: dict[str, object]) -> object:
    raise ToolFailed("no such city \ud800")


async def give_nonsense(arguments: dict[str, object]) -> object:
    return object()


class Misbehaving(ScriptedDriver):
    """Says what is given, then raises; in the calls after it behaves."""

    def __init__(self, error: BaseException | None, *before: ModelOutput) -> None:
        super().__init__()
        self._error, self._before = error, before

    async def run(self, prompt: Prompt) -> AsyncGenerator[ModelOutput, None]:
        if self.prompts:
            async for output in super().run(prompt):
                yield output
            return
        self.prompts.append(prompt)
        for output in self._before:
            yield output
        if self._error is not None:
            raise self._error


async def check_ended(world: World, *, code: str, outcome: str = "failed") -> None:
    """The turn has one end, as it should; and the next turn is like any other."""
    heard = await world.hear("turn_response")
    assert heard[-1]["type"] == "turn_response"
    assert heard[-1]["data"]["outcome"] == outcome
    assert [event["data"]["code"] for event in heard if event["type"] == "error_occurred"] == [code]
    agent = world.start()
    turn_id = await world.say(agent, "again")
    await world.hear("turn_response", turn_id=turn_id)
    assert types(world.heard).count("turn_response") == 2
    assert world.heard[-1]["data"]["outcome"] == "completed"


@pytest.mark.parametrize("position", range(7))
async def test_a_provider_error_anywhere_in_the_answer_ends_the_turn(position: int) -> None:
    broken: list[ScriptStep] = [*reply("some", " text")[:position], ProviderOverloaded("come back later")]
    async with open_world(ScriptedDriver(in_turn(broken, reply("fine")))) as world:
        await world.say(world.start(), "hi")
        await check_ended(world, code="provider_overloaded")
        said = [one.text for one in await world.messages() if isinstance(one, AssistantMessage)]
        assert said == [*(["some"] if position == 3 else ["some text"] if position > 3 else []), "fine"]


async def test_only_a_retryable_provider_error_is_recoverable() -> None:
    for error, recoverable in ((ProviderOverloaded("busy"), True), (ProviderAuthFailed("bad key"), False)):
        async with open_world(ScriptedDriver(in_turn([error]))) as world:
            await world.say(world.start(), "hi")
            heard = await world.hear("error_occurred")
            assert [one["data"]["recoverable"] for one in heard if one["type"] == "error_occurred"] == [recoverable]


async def test_a_failed_turn_is_logged_by_its_code_and_nothing_of_what_was_said(caplog: pytest.LogCaptureFixture) -> None:
    driver = ScriptedDriver(in_turn([*reply("the answer")[:3], ProviderAuthFailed("sk-secret is no key")], reply("fine")))
    with caplog.at_level(logging.DEBUG, logger="agentvm"):
        async with open_world(driver) as world:
            agent = world.start()
            turn_id = await world.say(agent, "the question")
            await check_ended(world, code="provider_auth_failed")
    (record,) = [record for record in caplog.records if record.getMessage() == "turn_failed"]
    facts = {name: value for name, value in vars(record).items() if name in ("turn_id", "image_id", "code")}
    assert facts == {"turn_id": turn_id, "image_id": world.image.image_id, "code": "provider_auth_failed"}
    assert record.levelno == logging.WARNING
    everything = "".join(repr(vars(record)) for record in caplog.records)
    assert [text for text in ("sk-secret", "the answer", "the question") if text in everything] == []


async def test_a_turn_that_had_ended_before_its_driver_failed_is_not_logged_as_failed(caplog: pytest.LogCaptureFixture) -> None:
    driver = Misbehaving(ProviderOverloaded("late"), MessageStarted("m", "x"), MessageStopped("end_turn"))
    async with open_world(driver) as world:
        agent = world.start()
        await world.say(agent, "hi")
        await agent.rest()
        assert world.hear_nowait()[-1]["data"]["outcome"] == "completed"
    assert [record for record in caplog.records if record.getMessage() == "turn_failed"] == []


@pytest.mark.parametrize(
    "error",
    [
        ValueError("bug"),
        KeyError("bug"),
        RecursionError(),
        MemoryError(),
        OSError("bug"),
        ExceptionGroup("bugs", [ValueError("bug")]),
        UnicodeEncodeError("utf-8", "\ud800", 0, 1, "bug"),
    ],
)
async def test_an_exception_of_any_kind_in_a_driver_ends_only_that_turn(error: Exception) -> None:
    async with open_world(Misbehaving(error, MessageStarted("m", "x"), TextStarted(), TextChunk("par"))) as world:
        await world.say(world.start(), "hi")
        await check_ended(world, code="internal_error")
        told = next(event["data"] for event in world.heard if event["type"] == "error_occurred")
        assert "bug" not in told["message"]


async def test_half_of_a_surrogate_pair_from_a_model_neither_ends_the_turn_nor_the_connection() -> None:
    async with open_world(ScriptedDriver(in_turn(reply("half \ud83d", " pair", "\ude00")))) as world:
        await world.say(world.start(), "hi")
        heard = await world.hear("turn_response")
        assert heard[-1]["data"]["outcome"] == "completed"
        said = (await world.messages())[-1]
        assert isinstance(said, AssistantMessage)
        assert said.text == "half \ufffd pair\ufffd"


async def test_half_of_a_surrogate_pair_in_an_error_is_told_and_stored() -> None:
    async with open_world(ScriptedDriver(in_turn([ProviderOverloaded("bad \ud800")], reply("fine")))) as world:
        await world.say(world.start(), "hi")
        await check_ended(world, code="provider_overloaded")
        assert any(isinstance(one, ErrorMessage) and one.content == "bad \ufffd" for one in await world.messages())


@pytest.mark.parametrize(
    "outputs",
    [
        (),
        (MessageStarted("m", "x"),),
        (MessageStarted("m", "x"), TextStarted(), TextChunk("par")),
        tuple(
            step for step in tool_calls(("c1", "ok", {}), text="let me see")[:-1] if not isinstance(step, Pause | AgentVMError)
        ),
    ],
)
async def test_an_answer_that_ends_without_saying_why_is_the_providers_fault(outputs: tuple[ModelOutput, ...]) -> None:
    async with open_world(Misbehaving(None, *outputs), tools=[tool("ok", ok)]) as world:
        await world.say(world.start(), "hi")
        await check_ended(world, code="provider_protocol_error")
        assert "tool_result" not in types(world.heard)


async def test_what_a_driver_says_after_the_end_is_not_told() -> None:
    late = (TextChunk("late"), MessageStarted("m2", "x"), MessageStopped("end_turn"))
    driver = Misbehaving(None, MessageStarted("m", "x"), MessageStopped("end_turn"), *late)
    async with open_world(driver) as world:
        agent = world.start()
        await world.say(agent, "hi")
        await agent.rest()
        heard = world.hear_nowait()
        assert types(heard).count("turn_response") == 1
        assert types(heard)[-1] == "turn_response"


@pytest.mark.parametrize(
    ("name", "says"),
    [("fail", "no such city"), ("crash", "internal error"), ("hang", "0.01 seconds"), ("nonsense", "JSON"), ("nobody", "ok")],
)
async def test_whatever_a_tool_does_the_model_gets_a_result_and_goes_on(name: str, says: str) -> None:
    driver = ScriptedDriver(in_turn(tool_calls(("c1", name, {}), ("c2", "ok", {})), reply("done")))
    tools = [
        tool("fail", fail),
        tool("crash", crash),
        tool("hang", hang, 0.01),
        tool("nonsense", give_nonsense),
        tool("ok", ok),
    ]
    async with open_world(driver, tools=tools) as world:
        await world.say(world.start(), "hi")
        heard = await world.hear("turn_response")
        assert heard[-1]["data"]["outcome"] == "completed"
        results = {
            one.tool_call_id: one.tool_result.output for one in await world.messages() if isinstance(one, ToolResultMessage)
        }
        assert (results["c1"].type, results["c2"].text) == ("error-text", "fine")
        assert says in results["c1"].text
        assert "ZeroDivisionError" not in results["c1"].text


async def test_input_that_is_no_json_is_told_to_the_model_and_the_tool_is_not_run() -> None:
    broken = [ToolInputChunk("{oops") if isinstance(step, ToolInputChunk) else step for step in tool_calls(("c1", "crash", {}))]
    driver = ScriptedDriver(in_turn(broken, reply("done")))
    async with open_world(driver, tools=[tool("crash", crash)]) as world:
        await world.say(world.start(), "hi")
        heard = await world.hear("turn_response")
        failed = [event["data"]["error"] for event in heard if event["type"] == "tool_failed"]
        assert len(failed) == 1
        assert "not a JSON object" in failed[0]


async def test_a_model_that_never_stops_calling_tools_is_stopped() -> None:
    driver = ScriptedDriver(in_turn(tool_calls(("c1", "ok", {}))))
    async with open_world(driver, tools=[tool("ok", ok)], limits=Limits(steps=3)) as world:
        await world.say(world.start(), "hi")
        heard = await world.hear("turn_response")
        assert [event["data"]["code"] for event in heard if event["type"] == "error_occurred"] == ["turn_limit_reached"]
        assert len(driver.prompts) == 3


async def test_a_turn_that_takes_too_long_ends_with_the_words_of_1x() -> None:
    driver = ScriptedDriver(lambda prompt: [*reply("par")[:3], Pause(anyio.Event())])
    async with open_world(driver, limits=Limits(turn_seconds=0.05)) as world:
        await world.say(world.start(), "hi")
        heard = await world.hear("turn_response")
        assert heard[-1]["data"]["outcome"] == "failed"
        (told,) = (event["data"] for event in heard if event["type"] == "error_occurred")
        assert (told["code"], told["message"]) == ("timeout", "Request timeout after 50ms")


async def test_a_driver_that_cannot_even_be_asked_ends_the_turn() -> None:
    driver = ScriptedDriver()
    async with open_world(driver) as world:
        driver.context_window = lambda model: 1 // 0  # type: ignore[method-assign]  # a driver with a bug
        agent = world.start()
        await world.say(agent, "hi")
        heard = await world.hear("turn_response")
        assert heard[-1]["data"]["outcome"] == "failed"


def failing_at(number: int) -> Callable[[int], bool]:
    return lambda record: record == number


async def test_a_message_that_cannot_be_stored_is_refused_and_the_next_one_is_taken() -> None:
    async with open_world(ScriptedDriver(), fails=failing_at(1)) as world:
        agent = world.start()
        with pytest.raises(StoreFailed):
            await agent.receive("lost")
        await world.say(agent, "kept")
        heard = await world.hear("turn_response")
        assert types(heard).count("turn_request") == 1
        assert len(await world.messages()) == 2


@pytest.mark.parametrize("number", range(2, 5))
async def test_a_store_that_fails_once_fails_the_turn_and_nothing_else(number: int) -> None:
    driver = ScriptedDriver(in_turn(tool_calls(("c1", "ok", {}), text="Let me see"), reply("done"), reply("fine")))
    async with open_world(driver, tools=[tool("ok", ok)], fails=failing_at(number)) as world:
        await world.say(world.start(), "hi")
        await check_ended(world, code="store_failed")
        # What was stored and told is one and the same: no message is told that the history does not have.
        told = [event["data"]["id"] for event in world.heard if event["category"] == "message"]
        stored = [message.id for message in await world.messages()]
        assert [one for one in told if one not in stored] == []
        assert [turn.outcome for turn in await world.turns()] == ["failed", "completed"]


async def test_a_store_that_stays_broken_still_leaves_no_turn_without_an_end() -> None:
    async with open_world(ScriptedDriver(), fails=lambda number: number > 1) as world:
        agent = world.start()
        await world.say(agent, "hi")
        heard = await world.hear("turn_response")
        assert types(heard)[-4:] == ["error_received", "error_message", "error_occurred", "turn_response"]
        with pytest.raises(StoreFailed):
            await agent.receive("again")
        await agent.rest()


async def test_stopping_with_a_broken_store_ends_every_turn_for_those_who_listen() -> None:
    driver = ScriptedDriver(lambda prompt: [Pause(anyio.Event())])
    async with open_world(driver, fails=lambda number: number > 2) as world:
        agent = world.start()
        await world.say(agent, "one")
        await world.say(agent, "two")
        with anyio.fail_after(60):
            await agent.stop()
        assert types(world.hear_nowait()).count("turn_response") == 2
