from collections.abc import AsyncIterator

import anyio
import pytest
from tests.drivers.fixtures import CLOCK, KEY, WEATHER, answered, called, prompt, settings
from tests.support import answers
from tests.support.provider import Answer, Disconnect, ScriptedProvider, Stall, open_provider

from agentvm.drivers.base import DriverSettings, UserEntry
from agentvm.drivers.openai import DEFAULT_MODEL, OpenAIDriver, open_driver
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
from agentvm.testing.conformance import driver as conformance


@pytest.fixture
async def provider() -> AsyncIterator[ScriptedProvider]:
    async with open_provider() as provider:
        yield provider


@pytest.fixture
async def driver(provider: ScriptedProvider) -> AsyncIterator[OpenAIDriver]:
    async with open_driver(settings(provider, path="/v1")) as driver:
        yield driver


async def test_text_streams(driver: OpenAIDriver, provider: ScriptedProvider) -> None:
    provider.play(answers.openai_text("Hel", "lo"))
    await conformance.check_text(driver)
    await conformance.check_parallel_calls(driver)
    request = provider.requests[0]
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    body = request.json()
    assert body["stream_options"] == {"include_usage": True}
    assert body["max_tokens"] == 64


async def test_parallel_tool_calls_keep_their_ids_and_inputs(driver: OpenAIDriver, provider: ScriptedProvider) -> None:
    provider.play(answers.openai_tools(("c1", "weather", ['{"city": "Osl', 'o"}']), ("c2", "clock", []), text="Let me look."))
    asked = prompt(tools=(WEATHER, CLOCK))
    await conformance.check_tool_calls(driver, asked, ["weather", "clock"])
    outputs = await conformance.collect(driver, asked)
    assert conformance.calls_of(outputs) == [("c1", "weather", {"city": "Oslo"}), ("c2", "clock", {})]


async def test_a_conversation_with_tools_goes_out_whole(driver: OpenAIDriver, provider: ScriptedProvider) -> None:
    provider.play(answers.openai_text("sunny"))
    await conformance.collect(driver, prompt(called(("c1", "weather")), answered("c1", "sun"), tools=(WEATHER,)))
    messages = provider.requests[0].json()["messages"]
    assert messages == [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"a":1}'}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "sun"},
    ]


async def test_a_server_of_ones_own_needs_no_key(provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    provider.play(answers.openai_text("hi"))
    async with open_driver(DriverSettings(base_url=provider.base_url)) as driver:
        await conformance.check_text(driver)
    assert "authorization" not in provider.requests[0].headers
    assert KEY not in str(provider.requests[0].headers)


FAILURE_CASES: list[tuple[Answer, type[ProviderError]]] = [
    (answers.failure(400), ProviderBadRequest),
    (answers.failure(401, {"error": {"message": f"Incorrect API key provided: {KEY}"}}), ProviderAuthFailed),
    (answers.failure(429), ProviderRateLimited),
    (answers.failure(500), ProviderOverloaded),
    (answers.failure(307, headers={"location": "http://127.0.0.1:9/"}), ProviderProtocolError),
    (Answer(content_type="text/html", steps=(b"<html>",)), ProviderProtocolError),
    (answers.stream([]), ProviderProtocolError),
    (answers.stream([answers.DONE]), ProviderProtocolError),
    (answers.stream([answers.delta({"content": "a"})]), ProviderProtocolError),
    (answers.stream([answers.delta({"content": "a"}), b'data: {"choices": [{"del\n\n']), ProviderProtocolError),
    (answers.stream([answers.delta({"content": "a"}), Disconnect()]), ProviderUnreachable),
    (
        answers.stream([answers.delta({"content": "a"}), answers.chunk({"error": {"message": KEY, "code": 502}})]),
        ProviderOverloaded,
    ),
]


@pytest.mark.parametrize(("answer", "expected"), FAILURE_CASES)
async def test_every_failure_has_its_error(
    answer: Answer, expected: type[ProviderError], driver: OpenAIDriver, provider: ScriptedProvider
) -> None:
    provider.play(answer)
    error = await conformance.check_failure(driver, prompt(), expected, secret=KEY)
    assert "openai" in str(error)
    assert "127.0.0.1" not in str(error)


async def test_nobody_at_the_address_is_unreachable() -> None:
    async with open_provider() as gone:
        pass
    async with open_driver(settings(gone)) as driver:
        await conformance.check_failure(driver, prompt(), ProviderUnreachable, secret=KEY)


async def test_closing_the_iterator_closes_the_socket(driver: OpenAIDriver, provider: ScriptedProvider) -> None:
    provider.play(answers.stream([answers.delta({"content": "a"}), Stall()]))
    await conformance.check_close_closes(driver, prompt(), lambda: provider.requests[-1].abandoned.wait())


async def test_cancelling_a_stalled_stream_closes_the_socket(driver: OpenAIDriver, provider: ScriptedProvider) -> None:
    provider.play(answers.stream([answers.delta({"content": "a"}), Stall()]))
    await conformance.check_cancel_closes(driver, prompt(), lambda: provider.requests[-1].abandoned.wait())


async def test_half_a_surrogate_pair_is_refused_as_a_provider_error(driver: OpenAIDriver) -> None:
    await conformance.check_failure(driver, prompt(UserEntry(content="\ud83e")), ProviderBadRequest)


async def test_the_deadline_covers_the_whole_answer(provider: ScriptedProvider) -> None:
    provider.play(answers.stream([answers.delta({"content": "a"}), Stall()]))
    async with open_driver(settings(provider, timeout=1)) as driver:
        await conformance.check_failure(driver, prompt(), ProviderTimeout)
        with anyio.fail_after(60):
            await provider.requests[0].abandoned.wait()


async def test_the_deadline_covers_the_pause_between_retries(provider: ScriptedProvider) -> None:
    provider.play(answers.failure(429, headers={"retry-after": "20"}))
    async with open_driver(settings(provider, timeout=0.2, max_retries=2)) as driver:
        await conformance.check_failure(driver, prompt(), ProviderTimeout)


async def test_a_refusal_before_the_first_output_is_tried_again(provider: ScriptedProvider) -> None:
    provider.play(answers.failure(429, headers={"retry-after-ms": "1"}), answers.openai_text("ok"))
    async with open_driver(settings(provider, max_retries=1)) as driver:
        await conformance.check_text(driver)
    assert len(provider.requests) == 2


async def test_a_long_retry_after_is_reported_and_not_waited_for(provider: ScriptedProvider) -> None:
    provider.play(answers.failure(429, headers={"retry-after": "60"}))
    async with open_driver(settings(provider, max_retries=2)) as driver:
        error = await conformance.check_failure(driver, prompt(), ProviderRateLimited)
    assert len(provider.requests) == 1
    assert error.retry_after == 60


async def test_a_finished_answer_leaves_its_connection_to_the_next(driver: OpenAIDriver, provider: ScriptedProvider) -> None:
    provider.play(answers.openai_text("a"))
    for _ in range(3):
        await conformance.collect(driver, prompt())
    assert {request.connection for request in provider.requests} == {1}


async def test_a_base_url_that_is_no_url_is_a_matter_for_the_operator() -> None:
    with pytest.raises(ConfigInvalid):
        async with open_driver(DriverSettings(base_url="localhost:1234/v1")):
            pass


async def test_windows_are_known_by_family_and_guessed_small_otherwise() -> None:
    async with open_driver(DriverSettings(api_key=Secret(KEY))) as driver:
        assert driver.default_model == DEFAULT_MODEL
        assert driver.context_window(DEFAULT_MODEL) == 400_000
        assert driver.context_window("deepseek/deepseek-chat") == 128_000
        assert driver.context_window("qwen3:4b") == 32_000
