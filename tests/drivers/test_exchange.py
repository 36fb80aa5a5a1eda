import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager

import anyio
import anyio.abc
import httpx2
import msgspec
import pytest
from tests.drivers.fixtures import FAILURES
from tests.support.provider import Answer, Delay, ScriptedProvider, Stall, Step, open_provider

from agentvm.drivers.base import MessageStarted, ModelOutput, TextChunk
from agentvm.drivers.exchange import CallIds, exchange
from agentvm.drivers.provider_network import ProviderTransport
from agentvm.errors import ProviderBadRequest, ProviderProtocolError, ProviderTimeout, ProviderUnreachable


class Words:
    """A decoder for events that are words; `end` ends the answer."""

    finished = False

    def feed(self, data: str) -> Iterable[ModelOutput]:
        self.finished = data == "end"
        return [TextChunk(data)]

    def end(self) -> Iterable[ModelOutput]:
        raise FAILURES.protocol("cut off")


class Values(Words):
    """A decoder for events that are JSON."""

    def feed(self, data: str) -> Iterable[ModelOutput]:
        return [TextChunk(str(msgspec.json.decode(data)))]


class Networks:
    """The connections of the tests below."""

    ours = True


@pytest.fixture(params=["our connections", "the library's"])
async def provider(request: pytest.FixtureRequest) -> AsyncIterator[ScriptedProvider]:
    Networks.ours = request.param == "our connections"
    async with open_provider() as provider:
        yield provider


def open_client() -> httpx2.AsyncClient:
    # Without certificates, which take longer to load than some deadlines below last.
    ours = ProviderTransport(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), httpx2.Limits()) if Networks.ours else None
    return httpx2.AsyncClient(verify=False, transport=ours)


def words(
    provider: ScriptedProvider,
    *steps: Step,
    seconds: float = 5.0,
    silence: float | None = None,
    patient: bool = False,
    decoder: type[Words] = Words,
) -> AsyncGenerator[ModelOutput, None]:
    provider.play(Answer(steps=steps))

    @asynccontextmanager
    async def request() -> AsyncIterator[httpx2.Response]:
        async with open_client() as client, client.stream("GET", provider.base_url) as response:
            yield response

    return exchange(lambda: (request(), decoder()), FAILURES, seconds, silence=silence, patient=patient)


async def read(run: AsyncGenerator[ModelOutput, None]) -> list[str]:
    with anyio.fail_after(60):
        async with aclosing(run):
            return [output.text async for output in run if isinstance(output, TextChunk)]


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
    with pytest.raises(ProviderProtocolError, match="an event of more than 8,388,608 bytes; ask for a shorter one"):
        await read(words(provider, b"data: ", *[b"x" * 1_000_000] * 9))


async def test_an_answer_of_small_events_has_an_end_too(provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentvm.drivers.exchange.ANSWER_MAX_BYTES", 1_000)
    with pytest.raises(ProviderProtocolError, match="an answer of more than 1,000 bytes"):
        await read(words(provider, *[b"data: a\n\n"] * 200))


@pytest.mark.parametrize("event", [b"{", b"[" * 100_000])
async def test_an_event_that_cannot_be_read_is_a_fault_of_the_provider(provider: ScriptedProvider, event: bytes) -> None:
    with pytest.raises(ProviderProtocolError, match="cannot be read"):
        await read(words(provider, b"data: ", event, b"\n\n", decoder=Values))


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
    with anyio.CancelScope() as scope:
        async for _ in words(provider, b"data: a\n\n", Stall()):
            scope.deadline = anyio.current_time()
    assert scope.cancelled_caught
    with anyio.fail_after(60):
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


async def test_silence_in_the_middle_of_an_answer_ends_the_call_long_before_its_deadline(provider: ScriptedProvider) -> None:
    with pytest.raises(ProviderTimeout, match=r"silent for 0\.1 s"):
        await read(words(provider, b"data: a\n\n", Stall(), seconds=60.0, silence=0.1))


async def test_any_byte_breaks_the_silence_also_a_comment(provider: ScriptedProvider) -> None:
    steps: list[Step] = [b"data: a\n\n"]
    for _ in range(6):
        steps += [Delay(0.1), b": still here\n\n"]
    assert await read(words(provider, *steps, b"data: end\n\n", silence=0.5)) == ["a", "end"]


async def test_a_provider_that_has_said_yes_may_think_before_its_first_word(provider: ScriptedProvider) -> None:
    assert await read(words(provider, Delay(0.6), b"data: end\n\n", silence=0.3)) == ["end"]


async def test_a_provider_that_does_not_even_say_yes_is_given_up() -> None:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as mute:
        port = mute.extra(anyio.abc.SocketAttribute.local_port)

        @asynccontextmanager
        async def request() -> AsyncIterator[httpx2.Response]:
            async with (
                httpx2.AsyncClient(trust_env=False) as client,
                client.stream("GET", f"http://127.0.0.1:{port}") as response,
            ):
                yield response

        with pytest.raises(ProviderTimeout, match=r"silent for 0\.1 s"):
            await read(exchange(lambda: (request(), Words()), FAILURES, 60.0, silence=0.1))
        with pytest.raises(ProviderTimeout, match=r"did not finish within 0\.1 s"):
            await read(exchange(lambda: (request(), Words()), FAILURES, 0.1, silence=60.0))
        with pytest.raises(ProviderTimeout, match=r"did not finish within 0\.2 s"):
            await read(exchange(lambda: (request(), Words()), FAILURES, 0.2, silence=0.1, patient=True))


async def test_a_model_in_this_machine_may_be_slow_until_its_first_word_and_not_after(provider: ScriptedProvider) -> None:
    late: list[Step] = [b": loading\n\n", Delay(0.3), b"data: a\n\n"]
    assert await read(words(provider, *late, b"data: end\n\n", silence=0.1, patient=True)) == ["a", "end"]
    with pytest.raises(ProviderTimeout, match="silent"):
        await read(words(provider, *late, Stall(), silence=0.1, patient=True))
