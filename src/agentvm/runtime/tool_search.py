"""Tool search — the built-in `find_tools`. Of many tools a model is told a part, and finds the others by words (BM25).

Found tools are appended to those that the model receives, never inserted: the provider's cache of the prompt stays good. They
are read from the session's history, so they stay after a restart.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from agentvm.drivers.base import ToolSpec
from agentvm.model.message import JsonOutput, Message, ToolResultMessage
from agentvm.tools.base import tool_spec

FIND_TOOLS = tool_spec(
    "find_tools",
    (
        "Finds further tools by what they do. You have more tools than you are told of: search before you say that something "
        "cannot be done. The tools that are found can be called from then on."
    ),
    ["query"],
    {"query": {"type": "string", "minLength": 1, "maxLength": 1000, "description": "Words of the task"}},
)
FOUND_MAX = 10
"""Tools that one search finds."""

_WORD = re.compile(r"[a-z]+|[0-9]+|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SATURATION, _LENGTH = 1.2, 0.75
"""The usual constants of BM25."""


class ToolIndex:
    """The names and descriptions of tools, for a search."""

    def __init__(self, specs: Sequence[ToolSpec]) -> None:
        self._specs = tuple(specs)
        self._words = [Counter(words_of(f"{spec.name} {spec.name} {spec.description}")) for spec in specs]
        self._lengths = [sum(words.values()) for words in self._words]
        self._average = sum(self._lengths) / max(1, len(specs))
        self._spread = Counter(word for words in self._words for word in words)

    def search(self, query: str, limit: int = FOUND_MAX) -> list[ToolSpec]:
        """Returns the tools that fit best; those that fit equally well in their order."""
        query_words = set(words_of(query))
        scores = [(self._score(place, query_words), -place) for place in range(len(self._specs))]
        best = sorted((score for score in scores if score[0] > 0), reverse=True)[:limit]
        return [self._specs[-place] for _, place in best]

    def _score(self, place: int, query: set[str]) -> float:
        words, total = self._words[place], len(self._specs)
        longer = 1 - _LENGTH + _LENGTH * self._lengths[place] / self._average
        score = 0.0
        for word in query & words.keys():
            rarity = math.log(1 + (total - self._spread[word] + 0.5) / (self._spread[word] + 0.5))
            score += rarity * words[word] * (_SATURATION + 1) / (words[word] + _SATURATION * longer)
        return score


def words_of(text: str) -> list[str]:
    """Returns the words of a text; those of `getOpenOrders` and `get_open_orders` are the same. CJK letters are words."""
    return _WORD.findall(_HUMP.sub(" ", text).lower())


def found_tools(history: Sequence[Message]) -> tuple[str, ...]:
    """Returns the names of the tools that were found in a session, in the order in which they were."""
    names: dict[str, None] = {}
    for message in history:
        if isinstance(message, ToolResultMessage) and message.tool_result.name == FIND_TOOLS.name:
            output = message.tool_result.output
            value = output.value if isinstance(output, JsonOutput) else None
            tools = value.get("tools") if isinstance(value, Mapping) else None
            names |= {str(tool.get("name")): None for tool in tools or () if isinstance(tool, Mapping)}
    return tuple(names)
