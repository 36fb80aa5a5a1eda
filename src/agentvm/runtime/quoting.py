"""Quoting — looks up the additional data in the prompts of a turn: the same for all its steps."""

from typing import NamedTuple

from agentvm.drivers.conversation import Exchange
from agentvm.errors import AgentVMError
from agentvm.log import get_logger
from agentvm.model.ids import MessageId, UserId
from agentvm.model.image import Image
from agentvm.model.knowledge import Passage
from agentvm.model.memory import Memory
from agentvm.model.usage import estimate_tokens
from agentvm.runtime import memories, quoted_context
from agentvm.runtime.call_knowledge import injected_of
from agentvm.runtime.ports import Ports
from agentvm.runtime.session_log import SessionLog
from agentvm.storage.base import Recalled

ROOM_SHARE = 5
"""The part of a window that passages may fill: a fifth."""

logger = get_logger(__name__)


class Quoted(NamedTuple):
    """An exchange before the question, and whether a stranger wrote some of it."""

    exchange: Exchange = ()
    tainted: bool = False
    passages: tuple[Passage, ...] = ()
    """Passages in it, numbered from 1 on."""


async def quote(
    ports: Ports,
    image: Image,
    log: SessionLog,
    history: Recalled,
    question_id: MessageId,
    window: int,
    user_id: UserId | None,
) -> Quoted:
    """Returns the data to insert before the current message; `window` is that of the model in tokens."""
    injected = injected_of(image) if ports.knowledge is not None else []
    recalled = await _recall(ports, log)
    if not (recalled or injected):
        return Quoted()
    question = quoted_context.find_question(history.messages, question_id)
    passages, tainted = await _look_up(ports, log, injected, question, window // ROOM_SHARE, user_id)
    return Quoted(quoted_context.quote(memories.choose(recalled, question), passages), tainted, tuple(passages))


async def _recall(ports: Ports, log: SessionLog) -> tuple[Memory, ...]:
    if ports.settings_of(log.tenant_id).memory.by == "off":
        return ()
    return await ports.memories.recall_ahead((log.tenant_id, log.container_id))


async def _look_up(
    ports: Ports, log: SessionLog, bases: list[tuple[str, int]], question: str, room: int, user_id: UserId | None
) -> tuple[list[Passage], bool]:
    """Returns the best passages of each knowledge base, as many as this many tokens hold."""
    passages: list[Passage] = []
    tainted = False
    for uri, count in bases:
        assert ports.knowledge is not None, "nothing is wanted without it"
        try:
            result = await ports.knowledge.search(log.tenant_id, [uri], question, count, user_id=user_id)
        except AgentVMError as error:
            # The question can be answered without them.
            logger.warning("knowledge_not_searched", uri=uri, code=error.code, error=str(error))
            continue
        for passage in result.passages:
            room -= estimate_tokens(passage.text) + estimate_tokens(passage.cite)
            if room < 0:
                break
            passages.append(passage)
        tainted = tainted or result.tainted
    return passages, tainted and bool(passages)
