"""Local — the driver of the embedded model: llama.cpp in a process of its own, no key, no network.

The default model, SmolLM2-135M, exists so that a fresh installation can answer at all. It is too small for tools (it gets two
calls in ten right) and for any language but English. Any other GGUF file is named by its path. A model gets tools if the
chat template in its file has a place for them, and the default model never: tools are then not sent, and earlier tool results
in a conversation reach it as text. A small model gets them as JSON that is enforced (`constrained.py`), a large one by its
template.

Opening starts nothing. The first call starts the process, and a call whose process dies fails with a ProviderError; the next
call starts another.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Literal

import anyio.to_thread
import httpx2
import msgspec

from agentvm.drivers.abilities import ModelAbilities
from agentvm.drivers.base import DriverSettings, ModelOutput, Prompt
from agentvm.drivers.chat_body import RequestJson, chat_body, estimate_prompt
from agentvm.drivers.chat_completions import ChatDecoder
from agentvm.drivers.constrained import ConstrainedDecoder, constrained_body
from agentvm.drivers.conversation import last_user_text
from agentvm.drivers.demo import ANSWER_TOKENS_MAX, answer_with_notice, is_demo, is_mostly_chinese
from agentvm.drivers.exchange import Decoder, exchange
from agentvm.drivers.failures import Failures
from agentvm.drivers.gguf import knows_tools
from agentvm.drivers.model_catalog import DEFAULT_MODEL, pull_command
from agentvm.drivers.output_schema import enforced_part
from agentvm.drivers.sending import forget_body, hold_body
from agentvm.drivers.sidecar_host import IDLE_SECONDS, Shape, SidecarHost, open_host
from agentvm.drivers.weights import default_model_dir, is_gguf, weights_path
from agentvm.errors import ModelUnavailable

# Measured with the default model: 530 MB while it runs, of which 380 are the sixteen thousand tokens.
_DEFAULT_SHAPE = Shape(slots=4, window=4096)
_OTHER_SHAPE = Shape(slots=2, window=8192)

# The authors' recommendation, and a penalty without which so small a model repeats itself.
_DEFAULT_SAMPLING: RequestJson = {"temperature": 0.2, "top_p": 0.9, "repeat_penalty": 1.1}

SMALL_BYTES_MAX = 4 * 1024**3
"""Weights of up to this size, about seven billion parameters, do not keep to the notation of a chat template."""

SILENCE_SECONDS = 180.0
"""Time that the model may be silent, also where providers may not."""

_FAILURES = Failures(
    provider="the embedded model",
    remedy_key="restart the server",
    remedy_reach="try again: it is being restarted",
)


def _shape_of(model: str) -> Shape:
    return _DEFAULT_SHAPE if model == DEFAULT_MODEL else _OTHER_SHAPE


ToolUse = Literal["none", "enforced", "template"]
"""How a model receives tools: not at all, as JSON that is enforced, or by the chat template in its file."""


def tool_use(prompt: Prompt, path: Path) -> ToolUse:
    """Returns how the model of a file is told of the tools of a prompt. Blocks."""
    if not prompt.tools or is_demo(prompt.model) or not knows_tools(path):
        return "none"
    return "enforced" if path.stat().st_size <= SMALL_BYTES_MAX else "template"


def local_body(prompt: Prompt, tools: ToolUse) -> RequestJson:
    """Returns the whole request. An explicit temperature takes precedence over the recommended one."""
    if tools == "enforced":
        return constrained_body(prompt, _FAILURES)
    body = (_DEFAULT_SAMPLING if is_demo(prompt.model) else {}) | chat_body(prompt, _FAILURES, speech_only=tools == "none")
    if "tools" in body:
        # llama.cpp has one grammar for an answer: that of the tools, or that of the schema.
        body.pop("response_format", None)
    elif prompt.output and prompt.constrains and (schema := enforced_part(prompt.output.schema)) is not None:
        # Its grammars, unlike those of providers, take any value and not objects alone.
        named = {"name": prompt.output.name, "schema": schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": named}
    return body


def silence_of(prompt: Prompt, own: float | None) -> float | None:
    """Returns how many seconds the model may be silent in the middle of an answer; `own` is the operator's word about it.

    Its process reads the prompts of others in between, which takes long on a busy machine. One that dies closes the connection.
    """
    if own is not None or prompt.silence is None:
        return own
    return max(prompt.silence, SILENCE_SECONDS)


class LocalDriver:
    """The embedded models of this process."""

    name = "local"

    def __init__(self, host: SidecarHost, pool: httpx2.AsyncClient, settings: DriverSettings) -> None:
        self._host = host
        self._pool = pool
        self._timeout = settings.timeout
        self._silence = settings.silence
        self._model_dir = settings.model_dir or default_model_dir()
        self.default_model = settings.model or DEFAULT_MODEL
        self.max_calls = _shape_of(self.default_model).slots
        """More calls would wait in its process, where the queue is not fair."""

    @property
    def process_ids(self) -> list[int]:
        """Ids of the model processes alive now."""
        return self._host.process_ids

    def context_window(self, model: str) -> int:
        return _shape_of(model).window

    def abilities(self, model: str) -> ModelAbilities:
        return ModelAbilities(pictures=False, tools=False if is_demo(model) else None, demo=is_demo(model))

    def run(self, prompt: Prompt) -> AsyncGenerator[ModelOutput, None]:
        if is_demo(prompt.model):
            if is_mostly_chinese(last_user_text(prompt)):
                return answer_with_notice(prompt.model)
            prompt = msgspec.structs.replace(prompt, max_tokens=min(prompt.max_tokens, ANSWER_TOKENS_MAX))
        return self._run(prompt)

    async def _run(self, prompt: Prompt) -> AsyncGenerator[ModelOutput, None]:
        path = self._find(prompt.model)
        tools = await anyio.to_thread.run_sync(tool_use, prompt, path)
        silence = silence_of(prompt, self._silence)
        begin = partial(self._begin, prompt, path, tools)
        async with aclosing(exchange(begin, _FAILURES, self._timeout, silence=silence, patient=True)) as outputs:
            async for output in outputs:
                yield output

    def _begin(
        self, prompt: Prompt, path: Path, tools: ToolUse
    ) -> tuple[AbstractAsyncContextManager[httpx2.Response], Decoder]:
        body = local_body(prompt, tools)
        decoder = ChatDecoder(_FAILURES, model=prompt.model, prompt_tokens=estimate_prompt(body))
        if tools != "enforced":
            return self._send(path, prompt, body), decoder
        return self._send(path, prompt, body), ConstrainedDecoder(decoder, is_text=prompt.output is None)

    def _find(self, model: str) -> Path:
        # A peer may choose among the installed models; a path is the operator's to give.
        path = weights_path(self._model_dir, model, anywhere=model == self.default_model)
        if path is None:
            raise ModelUnavailable(f"no weights for the embedded model {model!r}; run: avm {pull_command(model)}")
        with path.open("rb") as file:
            if not is_gguf(file):
                raise ModelUnavailable(f"the file of the model {model!r} is not a GGUF file")
        return path

    @asynccontextmanager
    async def _send(self, path: Path, prompt: Prompt, body: RequestJson) -> AsyncIterator[httpx2.Response]:
        async with self._host.lease(path, _shape_of(prompt.model)) as endpoint:
            headers = {"authorization": f"Bearer {endpoint.key}"}
            async with self._pool.stream("POST", f"{endpoint.url}/v1/chat/completions", json=body, headers=headers) as response:
                if not response.is_success:
                    raise _FAILURES.status(response.status_code, await response.aread(), response.headers)
                yield response


def open_pool() -> httpx2.AsyncClient:
    """Opens a pool in which each call has a connection of its own.

    llama.cpp announces a persistent connection and closes it a moment after each streamed answer: a quick second request on it
    gets no answer.
    """
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
    # No read timeout: the whole call has a deadline, and a slow machine may think long about a long prompt.
    return httpx2.AsyncClient(
        transport=httpx2.AsyncHTTPTransport(verify=False, limits=limits),
        timeout=None,
        trust_env=False,
        event_hooks={"request": [hold_body], "response": [forget_body]},
    )


@asynccontextmanager
async def open_driver(settings: DriverSettings, *, idle_seconds: float = IDLE_SECONDS) -> AsyncIterator[LocalDriver]:
    """Opens the embedded model. Leaving ends its processes."""
    async with open_pool() as pool, open_host(idle_seconds=idle_seconds) as host:
        yield LocalDriver(host, pool, settings)
