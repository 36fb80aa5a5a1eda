"""Embeddings — vectors of texts from an endpoint with the embeddings API of OpenAI: a vendor, Ollama, llama.cpp, vLLM."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import httpx2
import msgspec

from agentvm.errors import ConfigInvalid, NotAvailable, ToolFailed
from agentvm.model.public_address import AddressRules
from agentvm.model.tool_settings import EmbedderSettings
from agentvm.tools.safe_http import Outgoing, SafeHttp

RESPONSE_MAX_BYTES = 32 * 1024 * 1024
TIMEOUT_SECONDS = 60


class EmbeddingSource(Protocol):
    """Turns texts into vectors."""

    async def ask(self, texts: Sequence[str]) -> "EmbeddingReply":
        """Returns a vector for each text; `NotAvailable` says why there are none."""
        ...


class _Embedded(msgspec.Struct):
    index: int
    embedding: list[float]


class _EmbeddingUsage(msgspec.Struct):
    prompt_tokens: int | None = None


class EmbeddingReply(msgspec.Struct):
    """The form of OpenAI's embeddings."""

    data: list[_Embedded]
    usage: _EmbeddingUsage | None = None


def embedder_address(settings: EmbedderSettings) -> httpx2.URL:
    """Returns the address of the endpoint; `ConfigInvalid` names the missing setting."""
    try:
        url = httpx2.URL(settings.url or "")
    except httpx2.InvalidURL:
        url = httpx2.URL("")
    if url.scheme not in ("http", "https") or not url.host or url.userinfo:
        raise ConfigInvalid("tools.embedder.url: it is not an address such as http://localhost:11434/v1")
    if settings.model is None:
        raise ConfigInvalid("tools.embedder.model: name the model of tools.embedder.url")
    return url.copy_with(path=f"{url.path.rstrip('/')}/embeddings")


def embedder_rules(settings: EmbedderSettings) -> AddressRules:
    """Returns rules by which the operator's own endpoint may have any address, as the only one."""
    url = embedder_address(settings)
    host = f"[{url.host}]" if ":" in url.host else url.host
    try:
        return AddressRules.parse([f"{host}:{url.port or (443 if url.scheme == 'https' else 80)}"])
    except ValueError as error:
        raise ConfigInvalid(f"tools.embedder.url: {error}") from None


@dataclass(frozen=True, slots=True)
class HttpEmbeddings:
    """An endpoint with OpenAI's embeddings: a vendor, Ollama, llama.cpp, vLLM."""

    settings: EmbedderSettings
    http: SafeHttp
    """A transport with `embedder_rules`."""

    async def ask(self, texts: Sequence[str]) -> EmbeddingReply:
        key = self.settings.api_key
        request = Outgoing(
            method="POST",
            url=embedder_address(self.settings),
            headers=(("Content-Type", "application/json"),),
            secret_headers=() if key is None else (("Authorization", f"Bearer {key.reveal()}"),),
            content=msgspec.json.encode({"model": self.settings.model, "input": list(texts)}),
        )
        try:
            fetched = await self.http.send(request, timeout_seconds=TIMEOUT_SECONDS, max_bytes=RESPONSE_MAX_BYTES)
        except ToolFailed as error:
            failure = NotAvailable(f"The embedder is not available: {error}")
            failure.is_charged = not error.unsent
            raise failure from None
        if fetched.status != 200:
            raise NotAvailable(f"The embedder answered with status {fetched.status}; see tools.embedder")
        return read_reply(fetched.body)


def read_reply(body: bytes) -> EmbeddingReply:
    try:
        return msgspec.json.decode(body, type=EmbeddingReply)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        failure = NotAvailable("The embedder did not answer in the form of OpenAI's embeddings")
        failure.is_charged = True
        raise failure from None
