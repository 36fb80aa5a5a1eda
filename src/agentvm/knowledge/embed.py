"""Embedder — texts as vectors, from an endpoint with the embeddings API of OpenAI: a vendor, Ollama, llama.cpp, vLLM.

Calls are admitted and entered in the ledger as model calls are, under the driver `embedder`.
"""

import math
from array import array
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Protocol

import httpx2
import msgspec

from agentvm.errors import ConfigInvalid, NotAvailable, ToolFailed
from agentvm.knowledge.passages import IndexForm
from agentvm.model.ids import Clock, ContainerId, ImageId, NewId, SessionId, TenantId, TurnId
from agentvm.model.knowledge import NO_EMBEDDER, Passage
from agentvm.model.ledger import Charge, LedgerEntry, Planned
from agentvm.model.public_address import AddressRules
from agentvm.model.tool_settings import EmbedderSettings
from agentvm.model.usage import Usage, estimate_tokens
from agentvm.storage.sql.knowledge import IndexedChunk
from agentvm.storage.sql.store import Store
from agentvm.tools.safe_http import Outgoing, SafeHttp

DRIVER = "embedder"
BATCH_MAX = 64
"""Texts of one request."""
DIMENSIONS_MAX = 8_192
TOKENS_MAX = 100_000_000
"""Tokens of one request that are believed; of one with more they are estimated."""
RESPONSE_MAX_BYTES = 32 * 1024 * 1024
TIMEOUT_SECONDS = 60


class EmbeddingHold(Protocol):
    def settle(self, usage: Usage) -> Charge: ...

    def release(self) -> None: ...


class EmbeddingMeter(Protocol):
    """Decides whether a call may be made; see `agentvm.runtime.billing.Meter`."""

    async def admit(self, planned: Planned, *, force: bool = False) -> EmbeddingHold: ...


class _Embedded(msgspec.Struct):
    index: int
    embedding: list[float]


class _EmbeddingUsage(msgspec.Struct):
    prompt_tokens: int | None = None


class _EmbeddingReply(msgspec.Struct):
    data: list[_Embedded]
    usage: _EmbeddingUsage | None = None


def embedder_address(settings: EmbedderSettings) -> httpx2.URL:
    """Returns the address to ask; `ConfigInvalid` names what is missing."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedder:
    """The embedder of a server."""

    settings: EmbedderSettings
    http: SafeHttp
    """A transport with `embedder_rules`."""
    store: Store
    meter: EmbeddingMeter
    clock: Clock
    new_id: NewId

    @property
    def name(self) -> str:
        """The model. An index that was made by another one is made again."""
        return self.settings.model or ""

    async def embed(self, tenant_id: TenantId, texts: Sequence[str]) -> list[bytes]:
        """Returns the vector of each text; `NotAvailable` when the endpoint does not give them."""
        vectors: list[bytes] = []
        for start in range(0, len(texts), BATCH_MAX):
            vectors += await self._ask(tenant_id, texts[start : start + BATCH_MAX])
        return vectors

    async def _ask(self, tenant_id: TenantId, texts: Sequence[str]) -> list[bytes]:
        guessed = sum(map(estimate_tokens, texts))
        planned = Planned(
            tenant_id=tenant_id,
            user_id=None,
            driver=DRIVER,
            model=self.name,
            most_input=guessed,
            most_output=0,
            provider=DRIVER,
        )
        hold = await self.meter.admit(planned)
        reply: _EmbeddingReply | None = None
        try:
            reply = await self._send(texts)
        finally:
            if reply is None:
                hold.release()
        said = None if reply.usage is None else reply.usage.prompt_tokens
        is_said = said is not None and 0 <= said <= TOKENS_MAX
        usage = Usage(input_tokens=said if said is not None and is_said else guessed, output_tokens=0, estimated=not is_said)
        charge = hold.settle(usage)
        entry = LedgerEntry(
            key=self.new_id("emb"),
            at=self.clock(),
            tenant_id=tenant_id,
            container_id=ContainerId(""),
            image_id=ImageId(""),
            session_id=SessionId(""),
            turn_id=TurnId(""),
            driver=DRIVER,
            model=self.name,
            usage=usage,
            cost=charge.cost,
            price=charge.price,
        )
        await self.store.accounts(tenant_id).ledger.add([entry])
        ordered = sorted(reply.data, key=lambda one: one.index)
        if [one.index for one in ordered] != list(range(len(texts))):
            raise NotAvailable(f"The embedder returned {len(ordered)} vectors for {len(texts)} texts, or not one for each")
        return [pack(one.embedding) for one in ordered]

    async def _send(self, texts: Sequence[str]) -> _EmbeddingReply:
        key = self.settings.api_key
        request = Outgoing(
            method="POST",
            url=embedder_address(self.settings),
            headers=(("Content-Type", "application/json"),),
            secret_headers=() if key is None else (("Authorization", f"Bearer {key.reveal()}"),),
            content=msgspec.json.encode({"model": self.name, "input": list(texts)}),
        )
        try:
            fetched = await self.http.send(request, timeout_seconds=TIMEOUT_SECONDS, max_bytes=RESPONSE_MAX_BYTES)
        except ToolFailed as error:
            raise NotAvailable(f"The embedder is not available: {error}") from None
        if fetched.status != 200:
            raise NotAvailable(f"The embedder answered with status {fetched.status}; see tools.embedder")
        try:
            return msgspec.json.decode(fetched.body, type=_EmbeddingReply)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise NotAvailable("The embedder did not answer in the form of OpenAI's embeddings") from None


async def with_vectors(
    chunks: list[IndexedChunk], tenant_id: TenantId, form: IndexForm, embedder: Embedder | None
) -> list[IndexedChunk]:
    """Returns the passages with their vectors, if the index has any."""
    if not form.embedder:
        return chunks
    if embedder is None or embedder.name != form.embedder:
        raise NotAvailable(f"A search by vectors {NO_EMBEDDER}")
    vectors = await embedder.embed(tenant_id, [told(chunk.passage) for chunk in chunks])
    return [replace(chunk, vector=vector) for chunk, vector in zip(chunks, vectors, strict=True)]


def told(passage: Passage) -> str:
    """Returns the text of a passage as it is embedded: with what stands above it."""
    return "\n".join(part for part in (passage.title, passage.heading, passage.text) if part)


def pack(values: Sequence[float]) -> bytes:
    """Returns a vector of length 1 as bytes."""
    length = math.hypot(*values) if 0 < len(values) <= DIMENSIONS_MAX else 0
    if not math.isfinite(length) or not length:
        raise NotAvailable("The embedder returned a vector that is none")
    return array("f", [value / length for value in values]).tobytes()


async def open_embedder(
    settings: EmbedderSettings, store: Store, meter: EmbeddingMeter, clock: Clock, new_id: NewId, stack: AsyncExitStack
) -> Embedder | None:
    """Returns the embedder that the settings name; None without one."""
    if settings.url is None:
        return None
    http = await stack.enter_async_context(SafeHttp(embedder_rules(settings)))
    return Embedder(settings=settings, http=http, store=store, meter=meter, clock=clock, new_id=new_id)
