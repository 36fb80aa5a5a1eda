"""Local embeddings — vectors of texts from weights on this machine, in a process of their own as embedded models have."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread
import httpx2

from agentvm.drivers.gguf import has_pooling
from agentvm.drivers.local import open_pool
from agentvm.drivers.model_catalog import pull_command
from agentvm.drivers.sidecar_host import Shape, SidecarHost, open_host
from agentvm.drivers.weights import default_model_dir, is_gguf, weights_path
from agentvm.errors import ModelUnavailable, NotAvailable, ProviderError
from agentvm.knowledge.embeddings import EmbeddingReply, read_reply

LOCAL = "local/"
"""The name of a model on this machine begins with it."""
WINDOW_MAX_TOKENS = 2_048
SLOTS_MAX = 2
CALL_MAX_SECONDS = 300.0
UNCUT_MAX_CHARACTERS = 200
"""A text that is shorter is never cut."""
_TOO_LONG = (400, 413, 500)
"""Statuses of llama.cpp for a text that is longer than the model's window."""


@dataclass(frozen=True, slots=True)
class LocalEmbeddings:
    """One model of this machine. Its process starts with the first call and ends when it was idle for a while."""

    model: str
    model_dir: Path
    host: SidecarHost
    pool: httpx2.AsyncClient

    @property
    def name(self) -> str:
        return local_name(self.model)

    async def ask(self, texts: Sequence[str]) -> EmbeddingReply:
        """Returns a vector for each text; of one that is longer than the model's window, for its beginning."""
        path = await anyio.to_thread.run_sync(self._find)
        is_made_for_it = await anyio.to_thread.run_sync(has_pooling, path)
        shape = Shape(slots=SLOTS_MAX, window=WINDOW_MAX_TOKENS, pooling="own" if is_made_for_it else "mean")
        try:
            with anyio.fail_after(CALL_MAX_SECONDS):
                async with self.host.lease(path, shape) as endpoint:
                    return await self._ask(f"{endpoint.url}/v1/embeddings", endpoint.key, list(texts))
        except (ProviderError, ModelUnavailable, httpx2.TransportError) as error:
            raise NotAvailable(f"The embedder {self.name} is not available: {error}") from None
        except TimeoutError:
            raise NotAvailable(f"The embedder {self.name} has not answered within {CALL_MAX_SECONDS:g} seconds") from None

    async def _ask(self, url: str, key: str, texts: list[str]) -> EmbeddingReply:
        most = max(map(len, texts))
        while True:
            body = {"model": self.name, "input": texts}
            response = await self.pool.post(url, json=body, headers={"authorization": f"Bearer {key}"})
            if response.is_success:
                return read_reply(response.content)
            if response.status_code not in _TOO_LONG or most <= UNCUT_MAX_CHARACTERS:
                raise NotAvailable(f"The embedder {self.name} answered with status {response.status_code}")
            most = max(UNCUT_MAX_CHARACTERS, most // 2)
            texts = [text[:most] for text in texts]

    def _find(self) -> Path:
        path = weights_path(self.model_dir, self.model, anywhere=True)
        if path is None:
            raise NotAvailable(f"There are no weights of the embedder {self.name}; run: avm {pull_command(self.model)}")
        with path.open("rb") as file:
            if not is_gguf(file):
                raise NotAvailable(f"The file of the embedder {self.name} is not a GGUF file")
        return path


def local_name(model: str) -> str:
    """Returns the name of a model for people, without the folder of its file."""
    return LOCAL + model.removeprefix(LOCAL).rpartition("/")[2].removesuffix(".gguf")


@asynccontextmanager
async def open_local_embeddings(model: str, model_dir: Path | None) -> AsyncGenerator[LocalEmbeddings]:
    """Opens a model; leaving ends its process."""
    async with open_pool() as pool, open_host() as host:
        yield LocalEmbeddings(model, model_dir or default_model_dir(), host, pool)
