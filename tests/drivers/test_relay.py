from collections.abc import AsyncIterator

import pytest
from tests.drivers.fixtures import KEY, prompt, settings
from tests.support import answers
from tests.support.provider import Answer, ScriptedProvider, open_provider

from agentvm.drivers import relay as relays
from agentvm.drivers.anthropic import AnthropicDriver, open_driver
from agentvm.drivers.base import MessageStopped, UsageReported
from agentvm.drivers.openai import open_driver as open_openai
from agentvm.drivers.relay import RelayedDriver, RelayingDriver, RelayRequest, fetch
from agentvm.drivers.scripted import ScriptedDriver
from agentvm.errors import ProviderAuthFailed, ProviderProtocolError, ProviderRateLimited, ProviderUnreachable
from agentvm.model.usage import Usage

REQUEST = RelayRequest(path="v1/messages", body=b'{"a": 1}', headers={"anthropic-beta": "b"}, query={"beta": "true"})


@pytest.fixture
async def provider() -> AsyncIterator[ScriptedProvider]:
    async with open_provider() as provider:
        yield provider


@pytest.fixture
async def driver(provider: ScriptedProvider) -> AsyncIterator[AnthropicDriver]:
    async with open_driver(settings(provider)) as driver:
        yield driver


def json_answer(content: bytes) -> Answer:
    return Answer(steps=[content], content_type="application/json", headers={"request-id": "r1", "x-secret": "of the account"})


async def test_a_request_is_sent_as_it_is_and_its_answer_comes_back_so(
    provider: ScriptedProvider, driver: AnthropicDriver
) -> None:
    content = b'{"id": "m1", "usage": {"input_tokens": 3, "output_tokens": 4}}'
    provider.play(json_answer(content))
    sent, begun = list[bytes](), list[bool]()

    async def send(piece: bytes) -> None:
        sent.append(piece)

    relayed = RelayedDriver(driver, REQUEST, send, lambda: begun.append(True))
    outputs = [output async for output in relayed.run(prompt())]
    assert outputs[1:] == [UsageReported(Usage(input_tokens=3, output_tokens=4)), MessageStopped("end_turn")]
    assert (sent, begun, relayed.headers) == ([content], [True], {"request-id": "r1"})
    (request,) = provider.requests
    assert (request.path, request.body, request.headers["anthropic-beta"]) == ("/v1/messages?beta=true", b'{"a": 1}', "b")


async def test_an_answer_that_is_too_large_is_not_taken(
    provider: ScriptedProvider, driver: AnthropicDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relays, "ANSWER_MAX_BYTES", 10)
    provider.play(json_answer(b"x" * 11))
    with pytest.raises(ProviderProtocolError):
        await fetch(driver, REQUEST)


async def test_a_refusal_is_kept_without_the_key_and_one_of_the_account_is_not(
    provider: ScriptedProvider, driver: AnthropicDriver
) -> None:
    provider.play(answers.failure(429, {"error": {"message": f"slow down, {KEY}"}}), answers.failure(401))

    async def send(piece: bytes) -> None:
        raise AssertionError(piece)

    refused = RelayedDriver(driver, REQUEST, send, lambda: None)
    with pytest.raises(ProviderRateLimited):
        await anext(refused.run(prompt()))
    assert refused.refusal is not None
    assert (refused.refusal.status, b"slow down, ***" in refused.refusal.content) == (429, True)
    account = RelayedDriver(driver, REQUEST, send, lambda: None)
    with pytest.raises(ProviderAuthFailed):
        await anext(account.run(prompt()))
    assert account.refusal is None


async def test_a_provider_that_cannot_be_reached_is_an_error_of_ours(driver: AnthropicDriver) -> None:
    async with open_provider() as gone:
        pass
    async with open_driver(settings(gone)) as nobody:
        with pytest.raises(ProviderUnreachable):
            await fetch(nobody, REQUEST)


async def test_the_providers_with_clients_of_their_own_relay(provider: ScriptedProvider, driver: AnthropicDriver) -> None:
    assert isinstance(driver, RelayingDriver)
    assert driver.answer_limit == "max_tokens"
    async with open_openai(settings(provider)) as openai:
        assert isinstance(openai, RelayingDriver)
    assert not isinstance(ScriptedDriver(), RelayingDriver)
