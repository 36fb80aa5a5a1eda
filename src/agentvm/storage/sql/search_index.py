"""Search index — the words of messages and resources, which every engine keeps in its own way.

The index contains words and positions, not texts; visibility is checked in the tables again. Words are cut by
`agentvm.storage.sql.words` on every engine, so all engines find the same.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from agentvm.storage.sql.connection import Row

IndexName = Literal["messages", "resources", "knowledge"]

Weighed = tuple[float, int]
"""The weight of a hit, the best the least; and the position, negated so that newer hits come first."""


@dataclass(frozen=True, slots=True)
class SearchPiece:
    """Words that must stand beside each other; `open_ended`: the last may continue."""

    words: tuple[str, ...]
    open_ended: bool

    def matches(self, text_terms: Sequence[str], start: int) -> bool:
        """Whether the words of a text have the piece there."""
        count = len(self.words)
        here = tuple(text_terms[start : start + count])
        if len(here) < count or here[:-1] != self.words[:-1]:
            return False
        return here[-1].startswith(self.words[-1]) if self.open_ended else here[-1] == self.words[-1]


class SearchIndex(Protocol):
    """The index of a connection, within the transaction of its work."""

    def add_messages(self, messages: Iterable[tuple[int, str]], /) -> None:
        """Adds messages, each with its position and its words, which begin with the key of their container."""

    def drop_message(self, position: int, /) -> None: ...

    def find_messages(
        self, pieces: Sequence[SearchPiece], containers: Sequence[str], where: str, values: dict[str, Any], /
    ) -> list[Weighed]:
        """The newest messages, `:most` of them, that have all pieces in one of the containers, which are named by their keys.

        `where` narrows them by `message_facts AS f` and `sessions AS s`. A message weighs up to twice as much if it is new:
        `:month` is the age at which the bonus has halved, counted from `:now`.
        """

    def put_resource(self, resource_key: int, columns: Sequence[str] | None, /) -> None:
        """Replaces the words of a resource: those of its scope, name, tags, description and text. None removes them."""

    def find_resources(
        self, pieces: Sequence[SearchPiece], scopes: Sequence[str], where: str, values: dict[str, Any], /
    ) -> "list[Row]":
        """Rows of the number of all hits and the id of one, the best first; one row without an id if there are none.

        A hit has one of the scopes, and all pieces in its name, tags, description and text. `where` narrows them by
        `resources AS r`. The page begins after the resource `:id` if that is not empty; if that one is gone, it skips as many
        hits as came before it, `:before` with it.
        """

    def add_chunks(self, chunks: Iterable[tuple[int, str]], /) -> None:
        """Adds passages, each with its key and its words, which begin with the key of their index."""

    def find_chunks(self, pieces: Sequence[SearchPiece], indexes: Sequence[str], limit: int, /) -> list[tuple[float, int]]:
        """The best passages that have any of the pieces in one of the indexes: the weight, the best the least, and the key."""

    def add_signs(self, index_key: int, signs: Iterable[tuple[int, bytes]], /) -> None:
        """Adds the signs of the vectors of passages, a bit for each number, by the keys of the passages."""

    def find_nearest(self, index_key: int, signs: bytes, limit: int, /) -> list[int]:
        """The keys of the passages of an index whose signs differ least, the nearest first."""

    def merge(self, index: IndexName, pages: int, /) -> bool:
        """Merges some pages of an index, for a negative number of all its segments. Returns whether there may be more to do."""
