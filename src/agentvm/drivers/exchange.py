"""Exchange — one streamed model call over HTTP: send, read events under one deadline, decode, close.

A cancel scope must not stay open across a `yield`, or it would cancel the caller; so each wait has its own bound, see
`agentvm.drivers.answer_body`. All events that have arrived together are decoded before the next wait.

Silence has a bound of its own, far shorter than the call's. It counts while the connection is made and the response head is
waited for, all attempts together, and from the first byte of the answer on, between any two; comments and pings are bytes.
Between the head and the first byte it does not count: a provider that has accepted may be thinking. A model in this machine
(`patient`) accepts late and reads long prompts slowly, so there it counts from the first piece of the answer on.
"""

import secrets
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Protocol

import anyio
import httpx2
import msgspec

from agentvm.drivers.answer_body import AnswerBody, Overdue, Silent, open_body
from agentvm.drivers.base import ModelOutput, TextChunk, ThinkingChunk, ToolInputChunk
from agentvm.drivers.event_stream import EventReader
from agentvm.drivers.failures import Failures
from agentvm.drivers.refusal import MessageOrigin, explain
from agentvm.drivers.sending import will_report
from agentvm.errors import ProviderBadRequest

MAX_EVENT_BYTES = 8 * 1024 * 1024

ANSWER_MAX_BYTES = 256 * 1024 * 1024
"""Bytes of all events of an answer. The longest answers of models have a fifth of it, most of it framing."""

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


async def exchange(
    begin: Begin,
    failures: Failures,
    seconds: float,
    *,
    silence: float | None = None,
    patient: bool = False,
    origins: Callable[[], Sequence[MessageOrigin]] = tuple,
) -> AsyncGenerator[ModelOutput, None]:
    """Plays one call. The response is always closed before the iteration has ended.

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
        body = open_body(response, quiet, deadline)
        stack.callback(body.close)
        events = _Events(response, body, failures, (quiet, seconds), patient=patient)
        while not decoder.finished:
            data = events.take() or await events.next()
            for output in _decode(decoder, data, failures):
                body.begun = body.begun or isinstance(output, TextChunk | ThinkingChunk | ToolInputChunk)
                yield output
            if data is None:
                return
        with anyio.move_on_after(DRAIN_SECONDS):
            await events.drain()


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


class _Events:
    """The data of the events of an answer; never empty."""

    def __init__(
        self, response: httpx2.Response, body: AnswerBody, failures: Failures, bounds: tuple[float, float], *, patient: bool
    ) -> None:
        """`bounds` are how many seconds it may be silent, and how many the call may take."""
        self._body, self._failures, self._bounds, self._patient = body, failures, bounds, patient
        self._reader = EventReader(MAX_EVENT_BYTES)
        self._size = 0
        self._arrived: list[str] = []
        """The last first."""
        content_type = response.headers.get("content-type", "").partition(";")[0].strip()
        if content_type.lower() != "text/event-stream":
            raise failures.transport(httpx2.SSEError(f"It has the content type {content_type!r}."))

    def take(self) -> str | None:
        """Returns the next that has arrived already."""
        return self._arrived.pop() if self._arrived else None

    async def next(self) -> str | None:
        """Waits for the next; None at the end. Raises a ProviderError."""
        reader, body = self._reader, self._body
        try:
            while piece := await body.read():
                body.begun = body.begun or not self._patient
                self._size += len(piece)
                if self._size > ANSWER_MAX_BYTES:
                    raise self._failures.too_large("an answer", ANSWER_MAX_BYTES)
                if texts := reader.feed(piece):
                    self._arrived = texts[::-1]
                    return self._arrived.pop()
            self._arrived = reader.end()
            return self.take()
        except Silent:
            raise self._failures.silent(self._bounds[0]) from None
        except Overdue:
            raise self._failures.timeout(self._bounds[1]) from None
        except httpx2.SSEError:
            raise self._failures.too_large("an event", MAX_EVENT_BYTES) from None
        except httpx2.HTTPError as error:
            raise self._failures.transport(error) from None

    async def drain(self) -> None:
        """Reads to the end, so that the connection can be used again."""
        try:
            while await self._body.read():
                pass
        except (httpx2.HTTPError, Silent, Overdue):
            # The answer is complete; a connection that breaks now is only not used again.
            return


def _decode(decoder: Decoder, data: str | None, failures: Failures) -> Iterable[ModelOutput]:
    try:
        return decoder.end() if data is None else decoder.feed(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise failures.protocol(f"an event that cannot be read ({failures.redact(str(error))})") from None
