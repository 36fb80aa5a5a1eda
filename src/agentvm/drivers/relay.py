"""Relay — a client's own request, passed to a provider unchanged: the answer is passed back as it arrives, and metered."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import anyio
import httpx2

from agentvm.drivers.base import Driver, ModelOutput, Prompt
from agentvm.drivers.exchange import Decoder, exchange
from agentvm.drivers.failures import Failures
from agentvm.drivers.sending import will_report
from agentvm.errors import ProviderAuthFailed, ProviderError

ANSWER_MAX_BYTES = 32 * 1024 * 1024
REFUSAL_MAX_BYTES = 64 * 1024

_PASSED_HEADERS = ("request-id", "retry-after", "x-request-id", "x-should-retry")
"""Headers of a provider that its clients act on. Others tell of the operator's account."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayRequest:
    """A request for a provider, without credentials. `path` is below the provider's address."""

    path: str
    body: bytes = field(default=b"", repr=False)
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    streams: bool = False
    hides_usage: bool = False
    """Whether the client did not ask for the usage that its stream is counted by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayAnswer:
    """A provider's answer in one piece, or its refusal."""

    status: int
    content: bytes
    headers: Mapping[str, str]


class RelayDecoder(Decoder, Protocol):
    """Reads an answer leniently: unknown parts are passed on to the client."""

    @property
    def has_failed(self) -> bool:
        """Whether the provider has told of a failure."""

    def take(self) -> bytes:
        """Returns the bytes read since the last call, to be sent to the client."""

    def read(self, content: bytes) -> Iterable[ModelOutput]:
        """Returns the outputs of an answer in one piece."""


@runtime_checkable
class RelayingDriver(Driver, Protocol):
    """A provider that can be sent the requests of its own clients."""

    @property
    def answer_limit(self) -> str: ...

    @property
    def failures(self) -> Failures: ...

    @property
    def timeouts(self) -> tuple[float, float | None]: ...

    def open_relay(self, request: RelayRequest) -> AbstractAsyncContextManager[httpx2.Response]: ...

    def relay_decoder(self, *, hides_usage: bool = False) -> RelayDecoder: ...


Send = Callable[[bytes], Awaitable[None]]


class RelayedDriver:
    """A driver for one call, whose prompt is the client's own request."""

    def __init__(self, driver: RelayingDriver, request: RelayRequest, send: Send, begun: Callable[[], None]) -> None:
        """`send` takes the pieces of the answer, `begun` is called when the provider has accepted the request."""
        self.name, self.default_model = driver.name, driver.default_model
        self._driver = driver
        self._request: RelayRequest | None = request
        self.is_streamed, self._hides_usage = request.streams, request.hides_usage
        self._send, self._begun = send, begun
        self.refusal: RelayAnswer | None = None
        self.headers: Mapping[str, str] = {}
        self.has_told_failure = False
        self.is_asked = False
        """Whether the request is being sent, or was."""

    def context_window(self, model: str) -> int:
        return self._driver.context_window(model)

    async def run(self, prompt: Prompt) -> AsyncGenerator[ModelOutput, None]:
        self.is_asked = True
        decoder = self._driver.relay_decoder(hides_usage=self._hides_usage)
        outputs = self._stream(decoder, prompt) if self.is_streamed else self._whole(decoder)
        async with aclosing(outputs):
            async for output in outputs:
                yield output

    async def _stream(self, decoder: RelayDecoder, prompt: Prompt) -> AsyncGenerator[ModelOutput, None]:
        seconds, silence = self._driver.timeouts
        quiet = prompt.silence if silence is None else silence
        reading = exchange(lambda: (self._open(), decoder), self._driver.failures, seconds, silence=quiet)
        async with aclosing(reading) as outputs:
            try:
                async for output in outputs:
                    await self._send(decoder.take())
                    yield output
            except ProviderError:
                # The provider's own account of its failure, if it gave one.
                self.has_told_failure = decoder.has_failed
                await self._send(decoder.take())
                raise

    async def _whole(self, decoder: RelayDecoder) -> AsyncGenerator[ModelOutput, None]:
        will_report()
        failures, seconds = self._driver.failures, self._driver.timeouts[0]
        content: bytes | None = None
        with anyio.move_on_after(seconds):
            try:
                async with self._open() as response:
                    content = await _read(response, ANSWER_MAX_BYTES, failures)
            except httpx2.HTTPError as error:
                raise failures.transport(error) from None
        if content is None:
            raise failures.timeout(seconds)
        await self._send(content)
        for output in decoder.read(content):
            yield output

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[httpx2.Response]:
        request, self._request = self._request, None
        assert request is not None, "it was sent"
        async with self._driver.open_relay(request) as response:
            # The bytes of the request are not needed any more.
            del request
            self.headers = passed_headers(response)
            if not response.is_success:
                await self._refuse(response)
            self._begun()
            yield response

    async def _refuse(self, response: httpx2.Response) -> None:
        failures = self._driver.failures
        content = await _read(response, REFUSAL_MAX_BYTES, failures)
        error = failures.status(response.status_code, content, response.headers)
        if not isinstance(error, ProviderAuthFailed):
            # A refused account is the operator's business; everything else is about the client's request.
            self.refusal = RelayAnswer(status=response.status_code, content=failures.hide(content), headers=self.headers)
        raise error


async def fetch(driver: RelayingDriver, request: RelayRequest) -> RelayAnswer:
    """Sends a request that costs nothing, and returns the answer. Raises ProviderErrors only."""
    failures, content = driver.failures, None
    with anyio.move_on_after(driver.timeouts[0]):
        try:
            async with driver.open_relay(request) as response:
                content = await _read(response, ANSWER_MAX_BYTES, failures)
        except httpx2.HTTPError as error:
            raise failures.transport(error) from None
    if content is None:
        raise failures.timeout(driver.timeouts[0])
    if not response.is_success:
        refused = failures.status(response.status_code, content, response.headers)
        if isinstance(refused, ProviderAuthFailed):
            raise refused
        content = failures.hide(content)
    return RelayAnswer(status=response.status_code, content=content, headers=passed_headers(response))


def passed_headers(response: httpx2.Response) -> dict[str, str]:
    """Returns the headers of an answer that its client is told."""
    return {name: response.headers[name] for name in _PASSED_HEADERS if name in response.headers}


async def _read(response: httpx2.Response, most: int, failures: Failures) -> bytes:
    pieces, size = list[bytes](), 0
    async for piece in response.aiter_bytes():
        size += len(piece)
        if size > most:
            raise failures.too_large("an answer", most)
        pieces.append(piece)
    return b"".join(pieces)
