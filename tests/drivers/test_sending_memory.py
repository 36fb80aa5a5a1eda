"""What was sent to a provider does not stay in memory while the provider answers."""

import gc
import tracemalloc
from collections.abc import Generator
from contextlib import aclosing, contextmanager

import anyio
import pytest
from tests.drivers.fixtures import prompt, settings
from tests.support.answers import delta, failure, message_end, message_start, openai_end, stream, text_block
from tests.support.provider import Step, Wait, open_provider

from agentvm.drivers import anthropic, openai
from agentvm.drivers.base import Prompt, UserEntry
from agentvm.model.message import ImagePart

PICTURE_BYTES = 4 * 1024 * 1024


def picture() -> Prompt:
    return prompt(UserEntry(content=(ImagePart(data="QUJD" * (PICTURE_BYTES // 4), media_type="image/png"),)))


@contextmanager
def traced() -> Generator[None]:
    """Not longer than needed: it makes everything slow."""
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


def held() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@pytest.mark.parametrize("name", ["anthropic", "openai"])
async def test_a_picture_is_gone_from_memory_when_the_answer_has_begun(name: str) -> None:
    go = anyio.Event()
    module = {"anthropic": anthropic, "openai": openai}[name]
    answers: dict[str, list[Step]] = {
        "anthropic": [message_start(), Wait(go), *text_block(0, "hi"), *message_end()],
        "openai": [delta({"role": "assistant", "content": "h"}), Wait(go), *openai_end()],
    }
    with anyio.fail_after(60):
        async with open_provider() as provider, module.open_driver(settings(provider, max_retries=2)) as driver:
            # Sent again after a failure, so the body is not let go of too early.
            provider.play(failure(503), stream(answers[name]))
            with traced():
                async with aclosing(driver.run(picture())) as outputs:
                    await anext(outputs)
                    assert [len(request.body) > PICTURE_BYTES for request in provider.requests] == [True, True]
                    for request in provider.requests:
                        request.body = b""
                    assert held() < PICTURE_BYTES // 4
                    go.set()
                    assert [output async for output in outputs]
