"""Exchange — one streamed model call over HTTP: send, read events under one deadline, decode, close.

The deadline is entered anew for every wait instead of once around them all: a cancel scope must not stay open
across a `yield`, or it would cancel whoever reads us.
"""

import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Protocol

import anyio
import httpx2
import msgspec

from agentvm.drivers.base import ModelOutput
from agentvm.drivers.failures import Failures

MAX_EVENT_BYTES = 8 * 1024 * 1024

DRAIN_SECONDS = 0.2
"""How long the end of a finished stream is waited for, so that its connection can be used again."""


class Decoder(Protocol):
    """Turns a provider's events into outputs. Does no I/O."""

    @property
    def finished(self) -> bool:
        """The provider said that it is done."""

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


async def exchange(begin: Begin, failures: Failures, seconds: float) -> AsyncGenerator[ModelOutput, None]:
    """Plays one call. Whatever ends the iteration, the response is closed before it has ended."""
    deadline = anyio.current_time() + seconds
    async with AsyncExitStack() as stack:
        with anyio.CancelScope(deadline=deadline) as opening:
            try:
                request, decoder = begin()
                response = await stack.enter_async_context(request)
            except httpx2.HTTPError as error:
                raise failures.transport(error) from None
            except UnicodeEncodeError:
                raise failures.bad_request("text that is not Unicode (half of a surrogate pair)") from None
        if opening.cancelled_caught:
            raise failures.timeout(seconds)
        events = aiter(httpx2.EventSource(response, max_event_size=MAX_EVENT_BYTES))
        while not decoder.finished:
            with anyio.CancelScope(deadline=deadline) as waiting:
                data = await _next_data(events, failures)
            if waiting.cancelled_caught:
                raise failures.timeout(seconds)
            for output in _decode(decoder, data, failures):
                yield output
            if data is None:
                return
        with anyio.move_on_after(DRAIN_SECONDS):
            await _drain(events)


async def _next_data(events: AsyncIterator[httpx2.ServerSentEvent], failures: Failures) -> str | None:
    try:
        async for event in events:
            # Comments and bare `event:` lines keep the connection alive; they say nothing.
            if event.data:
                return event.data
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
    except httpx2.HTTPError:
        # The answer is complete; a connection that breaks now is only not used again.
        return
