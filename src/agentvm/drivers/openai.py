"""OpenAI — the driver for every endpoint that speaks chat completions: OpenAI, DeepSeek, OpenRouter, Ollama, vLLM.

The SDK retries before the first output only: 408, 409, 429, 5xx and failed connections, `max_retries` times, waiting as
Retry-After says (see `failures.MAX_RETRY_AFTER` for our cap; its own is 120 s) or 0.5 to 8 s.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx2

from agentvm.drivers.base import DriverSettings, ModelOutput, Prompt
from agentvm.drivers.chat_body import RequestJson, TokenLimit, chat_body, estimate_prompt, origins
from agentvm.drivers.chat_completions import ChatDecoder
from agentvm.drivers.exchange import exchange
from agentvm.drivers.failures import Failures
from agentvm.drivers.sdk import Sdk, StreamedResponse, check_base_url, check_key, host_of, http_client, key_remedy, load_sdk

DEFAULT_MODEL = "gpt-5.4-mini"

# The smallest window of each family: a conversation cut too early is dearer than one refused is useful.
_WINDOWS = {
    "gpt-4.1": 1_000_000,
    "gpt-4o": 128_000,
    "gpt-": 400_000,
    "o1": 128_000,
    "o3": 200_000,
    "o4": 200_000,
    "deepseek": 128_000,
}
_DEFAULT_WINDOW_TOKENS = 32_000


class OpenAIDriver:
    """One endpoint, shared by every agent of the process."""

    name = "openai"

    def __init__(self, sdk: Sdk, client: Any, settings: DriverSettings, failures: Failures) -> None:
        self._sdk = sdk
        # Any: the SDK is imported late, so its types cannot be named here.
        self._client = client
        self._timeout = settings.timeout
        self._silence = settings.silence
        self._failures = failures
        # OpenAI's newer models refuse the old name; most other servers know only that one.
        self._limit: TokenLimit = "max_completion_tokens" if _is_openai(settings.base_url) else "max_tokens"
        # Without a key of ours no Authorization header is sent, not even the SDK's.
        self._headers: dict[str, object] = {} if settings.api_key is not None else {"Authorization": sdk.module.Omit()}
        self.default_model = settings.model or DEFAULT_MODEL

    def context_window(self, model: str) -> int:
        name = model.rpartition("/")[2]
        return next((window for prefix, window in _WINDOWS.items() if name.startswith(prefix)), _DEFAULT_WINDOW_TOKENS)

    def run(self, prompt: Prompt) -> AsyncGenerator[ModelOutput, None]:
        silence = prompt.silence if self._silence is None else self._silence
        return exchange(
            lambda: self._begin(prompt), self._failures, self._timeout, silence=silence, origins=lambda: origins(prompt)
        )

    def _begin(self, prompt: Prompt) -> tuple[AbstractAsyncContextManager[httpx2.Response], ChatDecoder]:
        body = chat_body(prompt, self._failures, limit=self._limit)
        decoder = ChatDecoder(self._failures, model=prompt.model, prompt_tokens=estimate_prompt(body))
        return self._sdk.send(self._request(body), self._failures), decoder

    def _request(self, body: RequestJson) -> AbstractAsyncContextManager[StreamedResponse]:
        request: AbstractAsyncContextManager[StreamedResponse]
        request = self._client.chat.completions.with_streaming_response.create(**body, extra_headers=self._headers)
        return request


@asynccontextmanager
async def open_driver(settings: DriverSettings) -> AsyncIterator[OpenAIDriver]:
    """Opens the endpoint `settings.base_url`, or OpenAI's own. A key is optional for the former."""
    check_base_url("openai", settings.base_url)
    check_key("openai", settings.api_key)
    sdk = await load_sdk("openai")
    async with http_client(settings) as pool:
        yield OpenAIDriver(sdk, _client(sdk, settings, pool), settings, _failures(settings))


def _client(sdk: Sdk, settings: DriverSettings, pool: httpx2.AsyncClient) -> Any:
    return sdk.module.AsyncOpenAI(
        # Never None: the SDK would then send OPENAI_API_KEY to the host that base_url names.
        api_key="unused" if settings.api_key is None else settings.api_key.reveal(),
        base_url=settings.base_url,
        timeout=pool.timeout,
        max_retries=settings.max_retries,
        http_client=pool,
    )


def _is_openai(base_url: str | None) -> bool:
    return base_url is None or httpx2.URL(base_url).host == "api.openai.com"


def _failures(settings: DriverSettings) -> Failures:
    if settings.base_url is None:
        return Failures(
            provider=settings.name or "openai",
            remedy_key=key_remedy(settings, "openai", "check LLM_API_KEY or OPENAI_API_KEY"),
            remedy_reach="try again; if it persists, the operator finds the cause in the server's log",
            secret=settings.api_key,
        )
    return Failures(
        provider=settings.name or "openai",
        remedy_key=key_remedy(settings, "openai", "check LLM_API_KEY"),
        remedy_reach="try again; if it persists, the operator finds its address and the cause in the server's log",
        secret=settings.api_key,
        address=host_of(settings.base_url),
    )
