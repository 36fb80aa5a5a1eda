"""SDK — a provider's official library as the engine of requests: authentication, retries, error types.

Streams are not read through it: its typed events cost three to nine times as much as ours.
"""

import importlib
import ssl
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, Protocol
from urllib.request import getproxies

import anyio.to_thread
import httpx2

from agentvm.drivers.account_health import note_rate_limit
from agentvm.drivers.base import DriverSettings, ModelOutput, Prompt
from agentvm.drivers.exchange import Decoder, exchange
from agentvm.drivers.failures import Failures, refuse_long_waits, retry_after
from agentvm.drivers.provider_network import ProviderTransport
from agentvm.drivers.refusal import MessageOrigin
from agentvm.drivers.relay import RelayDecoder, RelayRequest
from agentvm.drivers.sending import forget_body, hold_body
from agentvm.errors import ConfigInvalid
from agentvm.model.secret import Secret

CONNECT_SECONDS = 10.0

_BUSY = frozenset({429, 503, 529})


class StreamedResponse(Protocol):
    """The result of `with_streaming_response` in both SDKs."""

    @property
    def http_response(self) -> httpx2.Response: ...


class StatusError(Protocol):
    """The exception of both SDKs for an unsuccessful HTTP response."""

    @property
    def response(self) -> httpx2.Response: ...


@dataclass(frozen=True, slots=True)
class Sdk:
    """One imported SDK."""

    module: ModuleType

    @asynccontextmanager
    async def send(
        self, request: AbstractAsyncContextManager[StreamedResponse], failures: Failures
    ) -> AsyncIterator[httpx2.Response]:
        """Sends, with the SDK's retries, and gives the response to stream from. Raises ProviderErrors only."""
        module = self.module
        try:
            async with request as response:
                _forget_options(response)
                yield response.http_response
        except module.APIStatusError as error:
            raise _of_status(error, failures) from None
        except module.APIConnectionError as error:
            raise failures.unreachable(error.__cause__) from None


class SdkDriver(ABC):
    """A provider over its SDK, shared by every agent of the process."""

    name: str
    answer_limit: str = "max_tokens"
    """The member of a request that bounds its answer."""

    def __init__(
        self,
        sdk: Sdk,
        client: Any,
        pool: httpx2.AsyncClient,
        settings: DriverSettings,
        failures: Failures,
        default_model: str,
    ) -> None:
        self._sdk = sdk
        self._pool = pool
        # Any: the SDK is imported late, so its types cannot be named here.
        self._client = client
        self._timeout = settings.timeout
        self._silence = settings.silence
        self._failures = failures
        self.default_model = settings.model or default_model

    def run(self, prompt: Prompt) -> AsyncGenerator[ModelOutput, None]:
        silence = prompt.silence if self._silence is None else self._silence
        return exchange(
            lambda: self._begin(prompt), self._failures, self._timeout, silence=silence, origins=lambda: self.origins(prompt)
        )

    def _begin(self, prompt: Prompt) -> tuple[AbstractAsyncContextManager[httpx2.Response], Decoder]:
        request, decoder = self.request(prompt)
        return self._sdk.send(request, self._failures), decoder

    @abstractmethod
    def request(self, prompt: Prompt) -> tuple[AbstractAsyncContextManager[StreamedResponse], Decoder]:
        """Builds the SDK's request and the decoder of its answer."""

    @property
    def failures(self) -> Failures:
        return self._failures

    @property
    def timeouts(self) -> tuple[float, float | None]:
        """Seconds for one whole call, and seconds that the provider may be silent, if the operator has set them."""
        return self._timeout, self._silence

    def relay_headers(self) -> dict[str, str]:
        """Returns the headers that authenticate a relayed request."""
        headers: dict[str, str] = dict(self._client.auth_headers)
        return headers

    @asynccontextmanager
    async def open_relay(self, request: RelayRequest) -> AsyncIterator[httpx2.Response]:
        """Sends a request of a client as it is; yields the response to stream from."""
        # `request` last but for the key: its client has chosen the version of the API.
        version_headers = {name: value for name, value in self._client.default_headers.items() if name == "anthropic-version"}
        headers = {"Content-Type": "application/json", **version_headers, **request.headers, **self.relay_headers()}
        url = f"{str(self._client.base_url).rstrip('/')}/{request.path}"
        sent = self._pool.build_request(
            request.method, url, params=dict(request.query) or None, content=request.body, headers=headers
        )
        response = await self._pool.send(sent, stream=True)
        try:
            yield response
        finally:
            await response.aclose()

    @abstractmethod
    def relay_decoder(self, *, hides_usage: bool = False) -> RelayDecoder:
        """Returns a reader of the answer to a relayed request; see `agentvm.drivers.relay`."""

    @abstractmethod
    def origins(self, prompt: Prompt) -> Sequence[MessageOrigin]:
        """Returns the origin of each message of the request."""


def client_options(settings: DriverSettings, pool: httpx2.AsyncClient, *, no_key: str) -> dict[str, Any]:
    """Returns the options of an SDK's client. The key is never None: the SDK would look for one in the environment."""
    return {
        "api_key": no_key if settings.api_key is None else settings.api_key.reveal(),
        "base_url": settings.base_url,
        "timeout": pool.timeout,
        "max_retries": settings.max_retries,
        "http_client": pool,
    }


def _forget_options(response: StreamedResponse) -> None:
    """Drops the request that the library keeps for its own way of reading the answer; see `agentvm.drivers.sending`."""
    options = getattr(response, "_options", None)
    if options is not None and hasattr(options, "json_data"):
        options.json_data = None


def _of_status(error: StatusError, failures: Failures) -> Exception:
    response = error.response
    return failures.status(response.status_code, response.content, response.headers)


async def load_sdk(name: str) -> Sdk:
    """Imports the SDK in a worker thread: it takes one to three seconds, and other agents are talking."""
    return Sdk(await anyio.to_thread.run_sync(importlib.import_module, name))


@asynccontextmanager
async def open_sdk(driver: str, settings: DriverSettings) -> AsyncIterator[tuple[Sdk, httpx2.AsyncClient]]:
    """Checks the settings, then yields the driver's SDK and the pool of its calls."""
    check_base_url(driver, settings.base_url)
    check_key(driver, settings.api_key)
    sdk = await load_sdk(driver)
    async with http_client(settings) as pool:
        yield sdk, pool


def check_base_url(driver: str, base_url: str | None) -> None:
    """Raises ConfigInvalid for an address that no request could be sent to: better at start-up than at the first chat."""
    if base_url is None:
        return
    try:
        url = httpx2.URL(base_url)
    except httpx2.InvalidURL:
        url = httpx2.URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigInvalid(
            f"the base URL of the driver {driver!r} is not an http(s) URL; its baseUrl begins with https:// or http://"
        )


def host_of(base_url: str | None) -> str | None:
    """Returns host and port, without any other part of the address."""
    return None if base_url is None else httpx2.URL(base_url).netloc.decode("ascii", "replace")


def key_remedy(settings: DriverSettings, driver: str, plain: str) -> str:
    """Returns the remedy when the key is refused: its place, the setting of a named provider, else `plain`."""
    if settings.key_place is not None:
        return f"check {settings.key_place}"
    return plain if settings.name in (None, driver) else f"check llm.providers.{settings.name}.apiKey"


def check_key(driver: str, key: Secret | None) -> None:
    """Raises ConfigInvalid for a key that no header can carry, without showing it."""
    if key is not None and not key.is_sendable:
        raise ConfigInvalid(
            f"the key of the driver {driver!r} contains spaces, line breaks or other characters that no key has; copy it again"
        )


def http_client(settings: DriverSettings) -> httpx2.AsyncClient:
    """Returns the pool that one provider's calls share.

    Redirects are not followed: they would carry the conversation to a host that was not configured. Connections are not
    limited here: the limit on turns limits them.
    """
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=60.0)
    return httpx2.AsyncClient(
        verify=_trusted(),
        timeout=httpx2.Timeout(settings.timeout, connect=CONNECT_SECONDS),
        limits=limits,
        # Ways through a proxy are the library's business.
        transport=None if {"http", "https", "all"} & getproxies().keys() else ProviderTransport(_trusted(), limits),
        # Deltas are too small to be worth packing, one by one.
        headers={"Accept-Encoding": "identity"},
        follow_redirects=False,
        event_hooks={"request": [hold_body], "response": [refuse_long_waits, _note_busy, forget_body]},
    )


@cache
def _trusted() -> ssl.SSLContext:
    """The certificate authorities that are trusted, once for all providers: reading them takes 20 ms of CPU."""
    return httpx2.create_ssl_context()


async def _note_busy(response: httpx2.Response) -> None:
    """A response hook: the tenant's other calls must leave the provider alone as well, while the SDK waits to try again."""
    wait = retry_after(response.headers)
    if response.status_code in _BUSY and wait:
        note_rate_limit(wait)
