"""Call knowledge — the knowledge bases of an image, as the calls of its turns search them."""

from collections.abc import Mapping, Sequence

import msgspec

from agentvm.model.image import Image
from agentvm.model.knowledge import FoundPassages
from agentvm.runtime.accepted import Accepted
from agentvm.runtime.citations import numbered
from agentvm.runtime.ports import Ports
from agentvm.runtime.session_log import SessionLog


class CallKnowledge:
    """Searches the knowledge bases of the image, and notes whether the passages are untrusted text."""

    def __init__(self, ports: Ports, image: Image, log: SessionLog, accepted: Accepted) -> None:
        self._source, self._accepted = ports.knowledge, accepted
        self._tenant_id = log.tenant_id
        self._uris = [str(spec["uri"]) for spec in knowledge_of(image)]
        self.tainted = False

    def __bool__(self) -> bool:
        """Whether there is anything to search."""
        return self._source is not None and bool(self._uris)

    async def search(self, question: str, k: int | None) -> FoundPassages:
        assert self._source is not None, "asked for by nobody"
        user_id = self._accepted.bill.user_id
        passages = await self._source.search(self._tenant_id, self._uris, question, k, user_id=user_id)
        self.tainted = self.tainted or passages.tainted
        sources = self._accepted.sources
        self._accepted.sources = numbered(sources, passages.passages)
        return msgspec.structs.replace(passages, first=max(sources, default=0) + 1)


def knowledge_of(image: Image) -> Sequence[Mapping[str, object]]:
    """Returns the knowledge bases of an image as it was built."""
    rendered = image.definition.rendered
    return () if rendered is None else rendered.knowledge


def injected_of(image: Image) -> list[tuple[str, int]]:
    """Returns the knowledge bases whose best passages are added to each prompt, and how many of each."""
    injected: list[tuple[str, int]] = []
    for spec in knowledge_of(image):
        retrieval = spec.get("retrieval")
        count = retrieval.get("inject") if isinstance(retrieval, Mapping) else None
        if isinstance(count, int) and count > 0:
            injected.append((str(spec["uri"]), count))
    return injected
