from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager

import anyio
import httpx2
import pytest
from tests.drivers.fixtures import FAILURES

from agentvm.drivers.base import MessageStarted, ModelOutput, TextDelta
from agentvm.drivers.exchange import CallIds, exchange
from agentvm.errors import ProviderBadRequest, ProviderProtocolError, ProviderTimeout, ProviderUnreachable
from agentvm.testing.provider import Answer, Delay, ScriptedProvider, Stall, Step, open_provider

pytestmark = pytest.mark.anyio


class Words:
    """A decoder for events that are words; `end` ends the answer."""

    finished = False

    def feed(self, data: str) -> Iterable[ModelOutput]:
        self.finished = data == "end"
        return [TextDelta(data)]

    def end(self) -> Iterable[ModelOutput]:
        raise FAILURES.protocol("cut off")


@pytest.fixture
async def provider() -> AsyncIterator[ScriptedProvider]:
    async with open_provider() as provider:
        yield provider


def words(provider: ScriptedProvider, *steps: Step, seconds: float = 5.0) -> AsyncGenerator[ModelOutput, None]:
    provider.play(Answer(steps=steps))

    @asynccontextmanager
    async def request() -> AsyncIterator[httpx2.Response]:
        async with httpx2.AsyncClient() as client, client.stream("GET", provider.base_url) as response:
            yield response

    return exchange(lambda: (request(), Words()), FAILURES, seconds)


async def read(run: AsyncGenerator[ModelOutput, None]) -> list[str]:
    with anyio.fail_after(5):
        async with aclosing(run):
            return [output.text async for output in run if isinstance(output, TextDelta)]


async def test_comments_and_empty_events_say_nothing(provider: ScriptedProvider) -> None:
    assert await read(words(provider, b": ping\n\n", b"event: ping\n\n", b"data: a\n\n", b"data: end\n\n")) == ["a", "end"]


async def test_events_may_arrive_in_pieces(provider: ScriptedProvider) -> None:
    assert await read(words(provider, b"da", b"ta: \xe4\xb8", b"\xad\r", b"\n\r\ndata: e", b"nd\n\n")) == ["中", "end"]


async def test_a_provider_that_does_not_hang_up_delays_the_end_only_a_little(provider: ScriptedProvider) -> None:
    assert await read(words(provider, b"data: end\n\n", Stall())) == ["end"]


async def test_a_stream_that_ends_early_is_the_decoders_to_judge(provider: ScriptedProvider) -> None:
    with pytest.raises(ProviderProtocolError, match="cut off"):
        await read(words(provider, b"data: a\n\n"))


async def test_a_slow_trickle_does_not_extend_the_deadline(provider: ScriptedProvider) -> None:
    trickle = [step for _ in range(100) for step in (b"data: a\n\n", Delay(0.02))]
    with pytest.raises(ProviderTimeout, match=r"0\.1 s"):
        await read(words(provider, *trickle, seconds=0.1))


async def test_an_event_without_end_is_refused(provider: ScriptedProvider) -> None:
    with pytest.raises(ProviderProtocolError):
        await read(words(provider, b"data: ", *[b"x" * 1_000_000] * 9))


async def test_a_body_that_cannot_be_built_fails_in_the_iteration() -> None:
    def begin() -> tuple[object, object]:
        raise ProviderBadRequest("no")

    run = exchange(begin, FAILURES, 1.0)  # type: ignore[arg-type]  # it never returns
    with pytest.raises(ProviderBadRequest):
        await anext(run)


async def test_nobody_there_is_a_provider_error() -> None:
    async with open_provider() as gone:
        pass
    with pytest.raises(ProviderUnreachable):
        await read(words(gone))


async def test_the_readers_own_deadline_is_not_mistaken_for_ours(provider: ScriptedProvider) -> None:
    with anyio.move_on_after(0.05) as scope:
        await read(words(provider, b"data: a\n\n", Stall()))
    assert scope.cancelled_caught
    with anyio.fail_after(2):
        await provider.requests[0].abandoned.wait()


def test_ids_are_kept_when_they_can_be() -> None:
    ids = CallIds()
    assert ids.take("a") == "a"
    made = {ids.take("a"), ids.take(""), ids.take(None)}
    assert len(made) == 3
    assert "a" not in made
    assert "" not in made


def test_outputs_are_values() -> None:
    assert MessageStarted("a", "b") == MessageStarted("a", "b")
