"""Embedder — texts as vectors, from an endpoint with the embeddings API of OpenAI, or from weights on this machine.

Calls are admitted and entered in the ledger as model calls are, under the driver `embedder`; those of weights on this machine
under `local`. That a call is made is committed before it leaves, so one that is stopped, or cut by a crash, is entered as an
estimate; one that never left, or that the endpoint refused, costs nothing.
"""

import math
from array import array
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

import anyio
import msgspec

from agentvm.errors import NotAvailable
from agentvm.knowledge.embeddings import EmbeddingReply, EmbeddingSource, HttpEmbeddings, embedder_rules
from agentvm.knowledge.local_embeddings import LOCAL, local_name, open_local_embeddings
from agentvm.knowledge.passages import IndexForm
from agentvm.model.ids import Clock, ContainerId, ImageId, NewId, SessionId, TenantId, TurnId, UserId
from agentvm.model.knowledge import NO_EMBEDDER, Passage
from agentvm.model.ledger import Charge, Planned, SentCall
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

    async def embed(self, tenant_id: TenantId, texts: Sequence[str], user_id: UserId | None = None) -> list[bytes]:
        """Returns the vector of each text; `NotAvailable` when they cannot be had. The calls are those of the user, if any."""
        vectors: list[bytes] = []
        for start in range(0, len(texts), self.batch):
            vectors += await self._ask(tenant_id, user_id, texts[start : start + self.batch])
        return vectors

    async def _ask(self, tenant_id: TenantId, user_id: UserId | None, texts: Sequence[str]) -> list[bytes]:
        call = self._call(tenant_id, user_id, sum(map(estimate_tokens, texts)))
        hold = await self.meter.admit(msgspec.structs.replace(call.planned, most_input=call.input_tokens))
        used: Usage | None = None
        try:
            await self.store.accounts(tenant_id).asked.add(call)
            used = call.unanswered
            reply = await self.source.ask(texts)
            used = _usage(reply, call.input_tokens)
        except NotAvailable as error:
            used = call.unanswered if error.is_charged else None
            raise
        finally:
            with anyio.CancelScope(shield=True):
                await self._enter(call, hold, used)
        ordered = sorted(reply.data, key=lambda vector: vector.index)
        if [vector.index for vector in ordered] != list(range(len(texts))):
            raise NotAvailable(f"The embedder returned {len(ordered)} vectors for {len(texts)} texts, or not one for each")
        return [pack(vector.embedding) for vector in ordered]

    def _call(self, tenant_id: TenantId, user_id: UserId | None, input_tokens: int) -> SentCall:
        key = self.new_id("emb")
        driver, model = self._billed
        return SentCall(
            key=key,
            call_id=key,
            at=self.clock(),
            tenant_id=tenant_id,
            user_id=user_id,
            container_id=ContainerId(""),
            image_id=ImageId(""),
            session_id=SessionId(""),
            turn_id=TurnId(""),
            driver=driver,
            model=model,
            provider=driver,
            input_tokens=input_tokens,
        )

    async def _enter(self, call: SentCall, hold: EmbeddingHold, used: Usage | None) -> None:
        """Enters the end of a call; one that was not answered, and is free, is only forgotten."""
        ledger = self.store.accounts(call.tenant_id).ledger
        if used is None:
            hold.release()
            await ledger.add((), answered=(call.key,))
        else:
            await ledger.add((call.entry(used, hold.settle(used), self.clock()),), answered=(call.key,))


def _usage(reply: EmbeddingReply, estimate: int) -> Usage:
    """Returns the usage that was reported, or an estimate of it."""
    reported = None if reply.usage is None else reply.usage.prompt_tokens
    if reported is not None and 0 <= reported <= TOKENS_MAX:
        return Usage(input_tokens=reported, output_tokens=0)
    return Usage(input_tokens=estimate, output_tokens=0, estimated=True)


async def with_vectors(
    chunks: list[IndexedChunk], tenant_id: TenantId, form: IndexForm, embedder: Embedder | None
) -> list[IndexedChunk]:
    """Returns the passages with their vectors, if the index has any."""
    if not form.embedder:
        return chunks
    if embedder is None or embedder.name != form.embedder:
        raise NotAvailable(f"A search by vectors {NO_EMBEDDER}")
    vectors = await embedder.embed(tenant_id, [embedded_text(chunk.passage) for chunk in chunks])
    return [replace(chunk, vector=vector) for chunk, vector in zip(chunks, vectors, strict=True)]


def embedded_text(passage: Passage) -> str:
    """Returns the text of a passage as it is embedded: with the headings above it."""
    return "\n".join(part for part in (passage.title, passage.heading, passage.text) if part)


def pack(values: Sequence[float]) -> bytes:
    """Returns a vector of length 1 as bytes."""
    length = math.hypot(*values) if 0 < len(values) <= DIMENSIONS_MAX else 0
    if not math.isfinite(length) or not length:
        raise NotAvailable("The embedder returned an invalid vector")
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
