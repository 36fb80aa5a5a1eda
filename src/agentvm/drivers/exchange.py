"""Exchange — one streamed model call over HTTP: send, read events under one deadline, decode, close.

The deadline is entered again for every wait instead of once around them all: a cancel scope must not stay open across a
`yield`, or it would cancel the caller.

Silence has a bound of its own, far shorter than the call's. It counts while the connection is made and the response head is
waited for, all attempts together, and from the first byte of the answer on, between any two; comments and pings are bytes.
Between the head and the first byte it does not count: a provider that has accepted may be thinking. A model in this machine
(`patient`) accepts late and reads long prompts slowly, so there it counts from the first piece of the answer on.
"""

import secrets
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Protocol

import anyio
import httpx2
import msgspec

from agentvm.drivers.base import ModelOutput, TextChunk, ThinkingChunk, ToolInputChunk
from agentvm.drivers.failures import Failures
from agentvm.drivers.refusal import MessageOrigin, explain
from agentvm.drivers.sending import will_report
from agentvm.errors import ProviderBadRequest

MAX_EVENT_BYTES = 8 * 1024 * 1024

DRAIN_SECONDS = 0.2
"""Time to wait for the end of a finished stream, so that its connection can be used again."""


class Decoder(Protocol):
    """Turns a provider's events into outputs. Does no I/O."""

    @property
    def finished(self) -> bool:
        """Whether the provider has ended its answer."""

    def feed(self, data: str) -> Iterable[ModelOutput]:
        """The outputs of one event. Raises a ProviderError for an error event."""

    def end(self) -> Iterable[ModelOutput]:
        """The outputs still owed when the stream ended. Raises a ProviderError if it ended too early."""


class CallIds:
    """Keeps the tool call ids of one call non-empty and unique: some providers send none, some repeat them."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def take(self, proposed: str | None) -> str:
        call_id = proposed if proposed and proposed not in self._used else f"call_{secrets.token_hex(12)}"
        self._used.add(call_id)
        return call_id


Begin = Callable[[], tuple[AbstractAsyncContextManager[httpx2.Response], Decoder]]
"""Builds a request and the decoder of its answer."""


class _Silent(Exception):
    """The provider was silent for too long."""


class _WatchedStream(httpx2.AsyncByteStream):
    """The bytes of an answer, as long as they keep coming."""

    def __init__(self, inner: AsyncIterable[bytes], seconds: float, *, patient: bool) -> None:
        self._inner = inner
        self._seconds = seconds
        self._patient = patient
        self.begun = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        chunks = aiter(self._inner)
        while True:
            with anyio.CancelScope() as waiting:
                if self.begun:
                    waiting.deadline = anyio.current_time() + self._seconds
                chunk = await anext(chunks, None)
            if waiting.cancelled_caught:
                raise _Silent
            if chunk is None:
                return
            self.begun = self.begun or not self._patient
            yield chunk

    async def aclose(self) -> None:
        if isinstance(self._inner, httpx2.AsyncByteStream):
            await self._inner.aclose()


async def exchange(
    begin: Begin,
    failures: Failures,
    seconds: float,
    *,
    silence: float | None = None,
    patient: bool = False,
    origins: Callable[[], Sequence[MessageOrigin]] = tuple,
) -> AsyncGenerator[ModelOutput, None]:
    """Plays one call. Whatever ends the iteration, the response is closed before it has ended.

    `origins` is called when the provider refuses the request, to find the message that the refusal is about.
    """
    will_report()
    deadline = anyio.current_time() + seconds
    quiet = seconds if silence is None else silence
    async with AsyncExitStack() as stack:
        try:
            response, decoder = await _open(begin, failures, stack, seconds if patient else min(seconds, quiet), seconds)
        except ProviderBadRequest as error:
            explain(error, origins())
            raise
        # Both hold the prompt, which is not needed any more.
        del begin, origins
        heard = _watch(response, quiet, patient=patient)
        events = aiter(httpx2.EventSource(response, max_event_size=MAX_EVENT_BYTES))
        while not decoder.finished:
            with anyio.CancelScope(deadline=deadline) as waiting:
                data = await _next_data(events, failures, quiet)
            if waiting.cancelled_caught:
                raise failures.timeout(seconds)
            for output in _decode(decoder, data, failures):
                heard.begun = heard.begun or isinstance(output, TextChunk | ThinkingChunk | ToolInputChunk)
                yield output
            if data is None:
                return
        with anyio.move_on_after(DRAIN_SECONDS):
            await _drain(events)


def _watch(response: httpx2.Response, quiet: float, *, patient: bool) -> _WatchedStream:
    inner = response.stream
    if not isinstance(inner, AsyncIterable):
        raise TypeError("an answer that is streamed has an asynchronous stream")
    response.stream = heard = _WatchedStream(inner, quiet, patient=patient)
    return heard


async def _open(
    begin: Begin, failures: Failures, stack: AsyncExitStack, quiet: float, seconds: float
) -> tuple[httpx2.Response, Decoder]:
    """Sends the request and waits for the head of the answer."""
    with anyio.CancelScope(deadline=anyio.current_time() + quiet):
        try:
            request, decoder = begin()
            return await stack.enter_async_context(request), decoder
        except httpx2.HTTPError as error:
            raise failures.transport(error) from None
        except UnicodeEncodeError:
            raise failures.bad_request("text that is not Unicode (half of a surrogate pair)") from None
    raise failures.silent(quiet) if quiet < seconds else failures.timeout(seconds)


async def _next_data(events: AsyncIterator[httpx2.ServerSentEvent], failures: Failures, quiet: float) -> str | None:
    try:
        async for event in events:
            # Comments and bare `event:` lines keep the connection alive; they say nothing.
            if event.data:
                return event.data
    except _Silent:
        raise failures.silent(quiet) from None
    except httpx2.HTTPError as error:
        raise failures.transport(error) from None
    return None


def _decode(decoder: Decoder, data: str | None, failures: Failures) -> Iterable[ModelOutput]:
    try:
        return decoder.end() if data is None else decoder.feed(data)
    except msgspec.DecodeError as error:
        raise failures.protocol(f"an event that cannot be read ({failures.redact(str(error))})") from None


async def _drain(events: AsyncIterator[httpx2.ServerSentEvent]) -> None:
    try:
        async for _ in events:
            pass
    except (httpx2.HTTPError, _Silent):
        # The answer is complete; a connection that breaks now is only not used again.
        return
