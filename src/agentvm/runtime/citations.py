"""Citations — the passages that an answer names as `[n]`, checked against those that its turn received. Pure.

Passages are numbered within a turn, in the order in which the model is told them: first those beside the question, then those
of its searches. A number that none of them has is no citation.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from agentvm.model.definition import SEARCH_KNOWLEDGE
from agentvm.model.ids import TurnId
from agentvm.model.knowledge import Passage
from agentvm.model.message import Citation, JsonOutput, Message, ToolResultMessage

Sources = Mapping[int, str]
"""The citations of passages by their numbers."""

CITATIONS_MAX = 50
"""Citations of one message."""
_NAMED = re.compile(r"\[(\d{1,4})\]|(resource://knowledge/[^\s\[\]<>\"]+#[^\s\[\]<>\"]+:\d{1,12}-\d{1,12})")


def numbered(sources: Sources, passages: Iterable[Passage]) -> dict[int, str]:
    """Returns the sources with further passages, each with the next number."""
    by_number = dict(sources)
    for passage in passages:
        by_number[max(by_number, default=0) + 1] = passage.cite
    return by_number


def sources_of(passages: Iterable[Passage], messages: Sequence[Message], turn_id: TurnId) -> dict[int, str]:
    """Returns the sources of a turn: passages beside the question, and those that its searches returned before a restart."""
    return {**numbered({}, passages), **_found_before(messages, turn_id)}


def _found_before(messages: Sequence[Message], turn_id: TurnId) -> dict[int, str]:
    """Returns the passages that searches of the turn have found, as their results number them."""
    earlier: dict[int, str] = {}
    for message in messages:
        if not isinstance(message, ToolResultMessage) or message.turn_id != turn_id:
            continue
        result = message.tool_result
        if result.name != SEARCH_KNOWLEDGE or not isinstance(result.output, JsonOutput):
            continue
        value = result.output.value
        passages = value.get("passages") if isinstance(value, Mapping) else None
        for passage in passages if isinstance(passages, Sequence) else ():
            if isinstance(passage, Mapping) and isinstance(passage.get("n"), int) and isinstance(passage.get("cite"), str):
                earlier[passage["n"]] = passage["cite"]
    return earlier


def cited(text: str, sources: Sources) -> tuple[Citation, ...]:
    """Returns the passages that a text names, by number or by citation, each once, in their order."""
    numbers = {cite: number for number, cite in reversed(list(sources.items()))}
    citations: dict[int, Citation] = {}
    for match in _NAMED.finditer(text) if sources else ():
        number = int(match[1]) if match[1] else numbers.get(match[2], 0)
        if number in sources and len(citations) < CITATIONS_MAX:
            citations.setdefault(number, Citation(n=number, cite=sources[number]))
    return tuple(citations.values())
