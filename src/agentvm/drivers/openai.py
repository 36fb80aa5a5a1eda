"""OpenAI — the driver for every endpoint that speaks chat completions: OpenAI, DeepSeek, OpenRouter, Ollama, vLLM.

The SDK retries before the first output only: 408, 409, 429, 5xx and failed connections, `max_retries` times, waiting as
Retry-After says (see `failures.RETRY_AFTER_MAX_SECONDS` for our cap; its own is 120 s) or 0.5 to 8 s.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx2

from agentvm.drivers.base import DriverSettings, Prompt
from agentvm.drivers.chat_body import TokenLimit, chat_body, estimate_prompt, origins
from agentvm.drivers.chat_completions import ChatDecoder
from agentvm.drivers.chat_relay import RelayedChat
from agentvm.drivers.failures import Failures
from agentvm.drivers.refusal import MessageOrigin
from agentvm.drivers.sdk import Sdk, SdkDriver, StreamedResponse, client_options, host_of, key_remedy, open_sdk

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


class OpenAIDriver(SdkDriver):
    """An endpoint that speaks chat completions."""

    name = "openai"

    def __init__(self, sdk: Sdk, client: Any, pool: httpx2.AsyncClient, settings: DriverSettings, failures: Failures) -> None:
        super().__init__(sdk, client, pool, settings, failures, DEFAULT_MODEL)
        # OpenAI's newer models refuse the old name; most other servers know only that one.
        self.answer_limit: TokenLimit = "max_completion_tokens" if _is_openai(settings.base_url) else "max_tokens"
        # Without a key of ours no Authorization header is sent, not even the SDK's.
        self._headers: dict[str, object] = {} if settings.api_key is not None else {"Authorization": sdk.module.Omit()}

    def context_window(self, model: str) -> int:
        name = model.rpartition("/")[2]
        return next((window for prefix, window in _WINDOWS.items() if name.startswith(prefix)), _DEFAULT_WINDOW_TOKENS)

    def request(self, prompt: Prompt) -> tuple[AbstractAsyncContextManager[StreamedResponse], ChatDecoder]:
        body = chat_body(prompt, self._failures, limit=self.answer_limit)
        create = self._client.chat.completions.with_streaming_response.create
        decoder = ChatDecoder(self._failures, model=prompt.model, prompt_tokens=estimate_prompt(body))
        return create(**body, extra_headers=self._headers), decoder

    def origins(self, prompt: Prompt) -> Sequence[MessageOrigin]:
        return origins(prompt)

    def relay_headers(self) -> dict[str, str]:
        return {} if self._headers else super().relay_headers()

    def relay_decoder(self, *, hides_usage: bool = False) -> RelayedChat:
        return RelayedChat(self._failures, hides_usage=hides_usage)


@asynccontextmanager
async def open_driver(settings: DriverSettings) -> AsyncIterator[OpenAIDriver]:
    """Opens the endpoint `settings.base_url`, or OpenAI's own. A key is optional for the former."""
    async with open_sdk("openai", settings) as (sdk, pool):
        client = sdk.module.AsyncOpenAI(**client_options(settings, pool, no_key="unused"))
        yield OpenAIDriver(sdk, client, pool, settings, _failures(settings))


def _is_openai(base_url: str | None) -> bool:
    return base_url is None or httpx2.URL(base_url).host == "api.openai.com"


def _failures(settings: DriverSettings) -> Failures:
    own = settings.base_url is None
    return Failures(
        provider=settings.name or "openai",
        remedy_key=key_remedy(settings, "openai", f"check LLM_API_KEY{' or OPENAI_API_KEY' if own else ''}"),
        remedy_reach="try again; if it persists, the operator finds the cause in the server's log",
        secret=settings.api_key,
        address=host_of(settings.base_url),
    )
