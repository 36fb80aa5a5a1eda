"""Embedder — texts as vectors, from an endpoint with the embeddings API of OpenAI, or from weights on this machine.

Calls are admitted and entered in the ledger as model calls are, under the driver `embedder`; those of weights on this machine
under `local`.
"""

import math
from array import array
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from agentvm.errors import NotAvailable
from agentvm.knowledge.embeddings import EmbeddingReply, EmbeddingSource, HttpEmbeddings, embedder_rules
from agentvm.knowledge.local_embeddings import LOCAL, local_name, open_local_embeddings
from agentvm.knowledge.passages import IndexForm
from agentvm.model.ids import Clock, ContainerId, ImageId, NewId, SessionId, TenantId, TurnId
from agentvm.model.knowledge import NO_EMBEDDER, Passage
from agentvm.model.ledger import Charge, LedgerEntry, Planned
from agentvm.model.tool_settings import EmbedderSettings
from agentvm.model.usage import Usage, estimate_tokens
from agentvm.storage.sql.knowledge import IndexedChunk
from agentvm.storage.sql.store import Store
from agentvm.tools.safe_http import SafeHttp

DRIVER = "embedder"
BATCH_MAX = 64
"""Texts of one request."""
DIMENSIONS_MAX = 8_192
TOKENS_MAX = 100_000_000
"""Tokens of one request that are believed; of one with more they are estimated."""
LOCAL_BATCH_MAX = 8
"""Texts of one request to weights on this machine, which read some hundred tokens a second."""


class EmbeddingHold(Protocol):
    def settle(self, usage: Usage) -> Charge: ...

    def release(self) -> None: ...


class EmbeddingMeter(Protocol):
    """Decides whether a call may be made; see `agentvm.runtime.billing.Meter`."""

    async def admit(self, planned: Planned, *, force: bool = False) -> EmbeddingHold: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedder:
    """The embedder of a server. `name` is its model: an index that was made by another one is made again."""

    name: str
    source: EmbeddingSource
    store: Store
    meter: EmbeddingMeter
    clock: Clock
    new_id: NewId
    batch: int = BATCH_MAX
    """Texts of one request."""

    @property
    def _billed(self) -> tuple[str, str]:
        """The driver and the model of the ledger."""
        is_local = self.name.startswith(LOCAL)
        return ("local", self.name.removeprefix(LOCAL)) if is_local else (DRIVER, self.name)

    async def embed(self, tenant_id: TenantId, texts: Sequence[str]) -> list[bytes]:
        """Returns the vector of each text; `NotAvailable` when they cannot be had."""
        vectors: list[bytes] = []
        for start in range(0, len(texts), self.batch):
            vectors += await self._ask(tenant_id, texts[start : start + self.batch])
        return vectors

    async def _ask(self, tenant_id: TenantId, texts: Sequence[str]) -> list[bytes]:
        guessed = sum(map(estimate_tokens, texts))
        driver, model = self._billed
        planned = Planned(
            tenant_id=tenant_id,
            user_id=None,
            driver=driver,
            model=model,
            most_input=guessed,
            most_output=0,
            provider=driver,
        )
        hold = await self.meter.admit(planned)
        reply: EmbeddingReply | None = None
        try:
            reply = await self.source.ask(texts)
        finally:
            if reply is None:
                hold.release()
        token_count = None if reply.usage is None else reply.usage.prompt_tokens
        is_said = token_count is not None and 0 <= token_count <= TOKENS_MAX
        usage = Usage(
            input_tokens=token_count if token_count is not None and is_said else guessed, output_tokens=0, estimated=not is_said
        )
        charge = hold.settle(usage)
        entry = LedgerEntry(
            key=self.new_id("emb"),
            at=self.clock(),
            tenant_id=tenant_id,
            container_id=ContainerId(""),
            image_id=ImageId(""),
            session_id=SessionId(""),
            turn_id=TurnId(""),
            driver=driver,
            model=model,
            usage=usage,
            cost=charge.cost,
            price=charge.price,
        )
        await self.store.accounts(tenant_id).ledger.add([entry])
        ordered = sorted(reply.data, key=lambda one: one.index)
        if [one.index for one in ordered] != list(range(len(texts))):
            raise NotAvailable(f"The embedder returned {len(ordered)} vectors for {len(texts)} texts, or not one for each")
        return [pack(one.embedding) for one in ordered]


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
    settings: EmbedderSettings,
    model_dir: Path | None,
    store: Store,
    meter: EmbeddingMeter,
    clock: Clock,
    new_id: NewId,
    stack: AsyncExitStack,
) -> Embedder | None:
    """Returns the embedder that the settings name; None without one."""
    if settings.model is None:
        return None
    name = settings.model if settings.url is not None else local_name(settings.model)
    make = partial(Embedder, name=name, store=store, meter=meter, clock=clock, new_id=new_id)
    if settings.url is None:
        source = await stack.enter_async_context(open_local_embeddings(settings.model.removeprefix(LOCAL), model_dir))
        return make(source=source, batch=LOCAL_BATCH_MAX)
    http = await stack.enter_async_context(SafeHttp(embedder_rules(settings)))
    return make(source=HttpEmbeddings(settings, http))
