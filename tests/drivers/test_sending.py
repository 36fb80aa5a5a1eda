from collections.abc import AsyncIterator

import anyio
from tests.support import answers as play
from tests.support.provider import Answer, Disconnect, Stall, open_provider

from agentvm.drivers.base import DriverSettings, ModelOutput, Prompt, UserEntry
from agentvm.drivers.openai import open_driver
from agentvm.drivers.sending import Sending
from agentvm.errors import ProviderBadRequest, ProviderError
from agentvm.model.message import FilePart
from agentvm.model.secret import Secret

PROMPT = Prompt(model="m", conversation=(UserEntry(content="hi"),), max_tokens=5)


async def drain(outputs: AsyncIterator[ModelOutput]) -> None:
    async for _ in outputs:
        pass


def left(sending: Sending) -> bool:
    return sending.left


def test_a_driver_that_reports_nothing_sends_at_once() -> None:
    sending = Sending()
    with sending:
        pass
    assert left(sending)
    sending.will_report()
    assert not left(sending)
    sending.sent()
    assert left(sending)


async def made(base_url: str, prompt: Prompt = PROMPT) -> tuple[Sending, ProviderError | None]:
    sending = Sending()
    settings = DriverSettings(base_url=f"{base_url}/v1", api_key=Secret("k"), max_retries=0)
    async with open_driver(settings) as driver:
        with sending:
            try:
                await drain(driver.run(prompt))
            except ProviderError as error:
                return sending, error
    return sending, None


async def test_a_request_that_was_written_has_left_whatever_is_answered() -> None:
    async with open_provider() as provider:
        for answer in (play.openai_text("hello"), Answer(status=500, content_type="text/plain", steps=[b"no"])):
            provider.play(answer)
            sending, error = await made(provider.base_url)
            assert sending.left
            assert error is None or not error.unanswered


async def test_a_request_that_nobody_took_has_not_left() -> None:
    async with open_provider() as provider:
        gone = provider.base_url
    sending, error = await made(gone)
    assert not sending.left
    assert error is not None


async def test_a_request_that_cannot_be_written_has_not_left() -> None:
    async with open_provider() as provider:
        file = FilePart(data="https://a.test/x.pdf", media_type="application/pdf")
        prompt = Prompt(model="m", conversation=(UserEntry(content=(file,)),), max_tokens=5)
        sending, error = await made(provider.base_url, prompt)
        assert (sending.left, type(error), provider.requests) == (False, ProviderBadRequest, [])


async def test_a_call_that_is_stopped_while_nothing_is_heard_has_left() -> None:
    sending = Sending()
    async with open_provider() as provider:
        provider.play(play.stream([Stall()]))
        settings = DriverSettings(base_url=f"{provider.base_url}/v1", api_key=Secret("k"))
        with anyio.fail_after(60):
            async with open_driver(settings) as driver, anyio.create_task_group() as tasks:

                async def call() -> None:
                    with sending:
                        await drain(driver.run(PROMPT))

                tasks.start_soon(call)
                await provider.wait_request()
                tasks.cancel_scope.cancel()
    assert sending.left


async def test_a_provider_that_breaks_off_before_the_first_word_has_read_the_request() -> None:
    async with open_provider() as provider:
        provider.play(play.stream([Disconnect()]))
        sending, error = await made(provider.base_url)
        assert sending.left
        assert error is not None
        assert error.unanswered
