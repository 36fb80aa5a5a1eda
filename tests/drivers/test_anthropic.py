from collections.abc import AsyncIterator
from contextlib import aclosing

import anyio
import msgspec
import pytest
from tests.drivers.fixtures import CLOCK, FAILURES, KEY, WEATHER, prompt, settings
from tests.support import answers
from tests.support.provider import Answer, Disconnect, ScriptedProvider, Stall, open_provider

from agentvm.drivers.anthropic import DEFAULT_MODEL, AnthropicDriver, MessagesDecoder, open_driver
from agentvm.drivers.anthropic_body import messages_body
from agentvm.drivers.base import DriverSettings, ModelOutput, ThinkingStopped, ToolInputChunk, UsageReported, UserEntry
from agentvm.errors import (
    ConfigInvalid,
    ProviderAuthFailed,
    ProviderBadRequest,
    ProviderError,
    ProviderOverloaded,
    ProviderProtocolError,
    ProviderRateLimited,
    ProviderTimeout,
    ProviderUnreachable,
)
from agentvm.model.secret import Secret
from agentvm.model.turn import OutputFormat
from agentvm.model.usage import Usage
from agentvm.testing.conformance import driver as conformance


@pytest.fixture
async def provider() -> AsyncIterator[ScriptedProvider]:
    async with open_provider() as provider:
        yield provider


@pytest.fixture
async def driver(provider: ScriptedProvider) -> AsyncIterator[AnthropicDriver]:
    async with open_driver(settings(provider)) as driver:
        yield driver


async def test_text_streams(driver: AnthropicDriver, provider: ScriptedProvider) -> None:
    provider.play(answers.anthropic_text("Hel", "lo"))
    await conformance.check_text(driver)
    await conformance.check_parallel_calls(driver)
    request = provider.requests[0]
    assert request.path == "/v1/messages"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.json()["stream"] is True


async def test_every_member_of_a_request_is_sent(driver: AnthropicDriver, provider: ScriptedProvider) -> None:
    provider.play(answers.anthropic_text("ok"))
    form = OutputFormat(name="answer", schema={"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]})
    options = prompt(system="be brief", tools=(WEATHER,), temperature=0.5, tool_choice="weather")
    for asked in (options, prompt(thinking=2_000), msgspec.structs.replace(prompt(), stop=("END",), output=form)):
        await conformance.collect(driver, asked)
        assert provider.requests[-1].json() == messages_body(asked, FAILURES)


async def test_parallel_tool_calls_keep_their_ids_and_inputs(driver: AnthropicDriver, provider: ScriptedProvider) -> None:
    pieces = ['{"city": "Osl', 'o"}']
    provider.play(answers.anthropic_tools(("toolu_1", "weather", pieces), ("toolu_2", "clock", []), text="Let me look."))
    asked = prompt(tools=(WEATHER, CLOCK))
    await conformance.check_tool_calls(driver, asked, ["weather", "clock"])
    outputs = await conformance.collect(driver, asked)
    assert conformance.calls_of(outputs) == [("toolu_1", "weather", {"city": "Oslo"}), ("toolu_2", "clock", {})]
    assert conformance.text_of(outputs) == "Let me look."


async def test_thinking_keeps_its_signature_also_when_redacted(driver: AnthropicDriver, provider: ScriptedProvider) -> None:
    steps = [*answers.thinking_block(0, "hm", "m"), *answers.redacted_block(1, "SECRET=="), *answers.text_block(2, "ok")]
    provider.play(answers.stream([answers.message_start(), *steps, *answers.message_end()]))
    outputs = await conformance.collect(driver, prompt())
    assert conformance.thinking_of(outputs) == "hmm"
    signatures = [output.signature for output in outputs if isinstance(output, ThinkingStopped)]
    assert signatures == ["c2lnbmF0dXJl", "redacted:SECRET=="]


async def test_usage_counts_the_cache_and_the_last_report_wins(driver: AnthropicDriver, provider: ScriptedProvider) -> None:
    start = answers.message_start(
        usage={"input_tokens": 7, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 300, "output_tokens": 1}
    )
    end = answers.message_end(usage={"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}})
    provider.play(answers.stream([start, *answers.text_block(0, "a"), *end]))
    outputs = await conformance.collect(driver, prompt())
    reports = [output.usage for output in outputs if isinstance(output, UsageReported)]
    assert reports[0] == Usage(input_tokens=7, output_tokens=1, cache_read_tokens=300, cache_write_tokens=20)
    assert reports[-1] == Usage(
        input_tokens=7, output_tokens=9, cache_read_tokens=300, cache_write_tokens=20, thinking_tokens=4
    )


async def test_a_count_below_zero_changes_nothing(driver: AnthropicDriver, provider: ScriptedProvider) -> None:
    end = answers.message_end(usage={"input_tokens": -7, "output_tokens": -1, "cache_read_input_tokens": -3})
    provider.play(answers.stream([answers.message_start(), *answers.text_block(0, "a"), *end]))
    assert conformance.usage_of(await conformance.collect(driver, prompt())) == Usage(input_tokens=10, output_tokens=1)


@pytest.mark.parametrize(
    ("told", "meant"),
    [
        ("end_turn", "end_turn"),
        ("max_tokens", "max_tokens"),
        ("model_context_window_exceeded", "max_tokens"),
        ("stop_sequence", "stop_sequence"),
        ("refusal", "refusal"),
        ("pause_turn", "pause_turn"),
        ("something_new", "end_turn"),
    ],
)
async def test_stop_reasons_are_mapped(told: str, meant: str, driver: AnthropicDriver, provider: ScriptedProvider) -> None:
    provider.play(answers.anthropic_text("x", stop_reason=told))
    assert conformance.stop_reason_of(await conformance.collect(driver, prompt())) == meant


OVERLOADED = answers.event("error", {"error": {"type": "overloaded_error", "message": f"busy, {KEY}"}})

FAILURE_CASES: list[tuple[Answer, type[ProviderError]]] = [
    (answers.failure(400), ProviderBadRequest),
    (answers.failure(401, {"error": {"type": "authentication_error", "message": f"bad key {KEY}"}}), ProviderAuthFailed),
    (answers.failure(429), ProviderRateLimited),
    (answers.failure(500), ProviderOverloaded),
    (answers.failure(529), ProviderOverloaded),
    (answers.failure(307, headers={"location": "http://127.0.0.1:9/"}), ProviderProtocolError),
    (Answer(content_type="text/html", steps=(b"<html>",)), ProviderProtocolError),
    (answers.stream([]), ProviderProtocolError),
    (answers.stream([answers.message_start(), *answers.text_block(0, "a")]), ProviderProtocolError),
    (answers.stream([answers.message_start(), b'event: x\ndata: {"type": "content_bl\n\n']), ProviderProtocolError),
    (answers.stream([answers.message_start(), *answers.text_block(0, "a")[:2], Disconnect()]), ProviderUnreachable),
    (answers.stream([answers.message_start(), OVERLOADED]), ProviderOverloaded),
]


@pytest.mark.parametrize(("answer", "expected"), FAILURE_CASES)
async def test_every_failure_has_its_error(
    answer: Answer, expected: type[ProviderError], driver: AnthropicDriver, provider: ScriptedProvider
) -> None:
    provider.play(answer)
    error = await conformance.check_failure(driver, prompt(), expected, secret=KEY)
    assert "anthropic" in str(error)


async def test_nobody_at_the_address_is_unreachable() -> None:
    async with open_provider() as gone:
        pass
    async with open_driver(settings(gone)) as driver:
        await conformance.check_failure(driver, prompt(), ProviderUnreachable, secret=KEY)


async def test_closing_the_iterator_closes_the_socket(driver: AnthropicDriver, provider: ScriptedProvider) -> None:
    provider.play(answers.stream([answers.message_start(), Stall()]))
    await conformance.check_close_closes(driver, prompt(), lambda: provider.requests[-1].abandoned.wait())


async def test_cancelling_a_stalled_stream_closes_the_socket(driver: AnthropicDriver, provider: ScriptedProvider) -> None:
    provider.play(answers.stream([answers.message_start(), *answers.text_block(0, "a")[:2], Stall()]))
    await conformance.check_cancel_closes(driver, prompt(), lambda: provider.requests[-1].abandoned.wait())


async def test_cancelling_before_the_first_byte_closes_the_socket(driver: AnthropicDriver, provider: ScriptedProvider) -> None:
    provider.play(answers.stream([Stall()]))
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(conformance.collect, driver, prompt())
            request = await provider.wait_request()
            tasks.cancel_scope.cancel()
        await request.abandoned.wait()


async def test_half_a_surrogate_pair_is_refused_as_a_provider_error(driver: AnthropicDriver) -> None:
    await conformance.check_failure(driver, prompt(UserEntry(content="\ud83e")), ProviderBadRequest)


async def test_the_deadline_covers_the_whole_answer(provider: ScriptedProvider) -> None:
    provider.play(answers.stream([answers.message_start(), *answers.text_block(0, "a")[:2], Stall()]))
    async with open_driver(settings(provider, timeout=1)) as driver:
        await conformance.check_failure(driver, prompt(), ProviderTimeout)
        with anyio.fail_after(60):
            await provider.requests[0].abandoned.wait()


async def test_a_reader_that_takes_its_time_still_meets_the_deadline(provider: ScriptedProvider) -> None:
    provider.play(answers.stream([answers.message_start(), *answers.text_block(0, "a"), Stall()]))
    async with open_driver(settings(provider, timeout=0.2)) as driver, aclosing(driver.run(prompt())) as run:

        async def read_slowly() -> None:
            await anext(run)
            start = anyio.current_time()
            while anyio.current_time() < start + 0.2:
                await anyio.lowlevel.checkpoint()
            async for _ in run:
                pass

        # Where the machine is busy the time is over before the first output.
        with anyio.fail_after(60), pytest.raises(ProviderTimeout):
            await read_slowly()


async def test_a_refusal_before_the_first_output_is_tried_again(provider: ScriptedProvider) -> None:
    provider.play(answers.failure(529, headers={"retry-after-ms": "1"}), answers.anthropic_text("ok"))
    async with open_driver(settings(provider, max_retries=1)) as driver:
        await conformance.check_text(driver)
    assert len(provider.requests) == 2


async def test_retries_are_bounded(provider: ScriptedProvider) -> None:
    provider.play(answers.failure(429, headers={"retry-after-ms": "1"}))
    async with open_driver(settings(provider, max_retries=2)) as driver:
        error = await conformance.check_failure(driver, prompt(), ProviderRateLimited)
    assert len(provider.requests) == 3
    assert error.retry_after == 0.001


async def test_a_long_retry_after_is_reported_and_not_waited_for(provider: ScriptedProvider) -> None:
    provider.play(answers.failure(429, headers={"retry-after": "3600"}))
    async with open_driver(settings(provider, max_retries=2)) as driver:
        error = await conformance.check_failure(driver, prompt(), ProviderRateLimited)
    assert len(provider.requests) == 1
    assert error.retry_after == 3600


async def test_a_stream_that_has_begun_is_not_tried_again(provider: ScriptedProvider) -> None:
    provider.play(answers.stream([answers.message_start(), Disconnect()]))
    async with open_driver(settings(provider, max_retries=2)) as driver:
        await conformance.check_failure(driver, prompt(), ProviderUnreachable)
    assert len(provider.requests) == 1


async def test_a_finished_answer_leaves_its_connection_to_the_next(driver: AnthropicDriver, provider: ScriptedProvider) -> None:
    provider.play(answers.anthropic_text("a"))
    for _ in range(3):
        await conformance.collect(driver, prompt())
    assert {request.connection for request in provider.requests} == {1}


async def test_a_base_url_that_is_no_url_is_a_matter_for_the_operator() -> None:
    bad = DriverSettings(api_key=Secret(KEY), base_url="localhost:1234/v1")
    with pytest.raises(ConfigInvalid):
        async with open_driver(bad):
            pass


async def test_the_operator_may_choose_the_default_model(driver: AnthropicDriver) -> None:
    assert driver.default_model == "m"
    async with open_driver(DriverSettings(api_key=Secret(KEY))) as plain:
        assert plain.default_model == DEFAULT_MODEL
        assert plain.context_window("claude-haiku-4-5") == 200_000
        assert plain.context_window(DEFAULT_MODEL) == 1_000_000
        assert plain.context_window("claude-sonnet-5-5") == 1_000_000


def feed(*events: bytes) -> list[ModelOutput]:
    decoder = MessagesDecoder(FAILURES, model="m")
    data = [event.split(b"data: ", 1)[1].strip().decode() for event in events]
    return [output for item in data for output in decoder.feed(item)]


async def test_events_and_blocks_of_a_later_version_are_skipped() -> None:
    unknown = answers.block(0, {"type": "server_tool_use", "id": "s"}, [{"type": "input_json_delta", "partial_json": "{}"}])
    steps = [answers.event("news", {}), *unknown, *answers.text_block(1, "a"), *answers.message_end()]
    outputs = feed(answers.message_start(), *steps)
    conformance.check_output_grammar(outputs)
    assert conformance.text_of(outputs) == "a"


async def test_a_tool_input_that_comes_whole_is_not_lost() -> None:
    whole = answers.block(0, {"type": "tool_use", "id": "t", "name": "n", "input": {"a": 1}}, [])
    outputs = feed(answers.message_start(), *whole, *answers.message_end("tool_use"))
    conformance.check_output_grammar(outputs)
    assert ToolInputChunk('{"a":1}') in outputs


@pytest.mark.parametrize(
    "events",
    [
        answers.text_block(0, "a"),
        [answers.message_start(), answers.message_start()],
        [answers.message_start(), answers.text_block(0, "a")[1]],
        answers.message_end(),
    ],
)
async def test_events_out_of_order_break_the_protocol(events: list[bytes]) -> None:
    with pytest.raises(ProviderProtocolError):
        feed(*events)


async def test_an_event_of_the_wrong_shape_cannot_be_decoded() -> None:
    with pytest.raises(msgspec.DecodeError):
        feed(b'data: {"type": 1}')
