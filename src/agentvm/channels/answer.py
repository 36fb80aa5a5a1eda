"""Answer — a turn's parts as the text of a chat, and how a text is split into messages. Pure."""

from collections.abc import Callable
from typing import Literal

from agentvm.gateways.turn_parts import CallMade, CallWaits, TextAdded, TurnEnded, TurnPart, TurnWaits
from agentvm.gateways.words import Words, wait_text

AnswerState = Literal["open", "waits", "ended"]
FENCE = "```"
_FENCE_ROOM = 2 * (len(FENCE) + 1)


class Answer:
    """The text of a turn so far, from its beginning or from its last wait on."""

    def __init__(self, words: Words) -> None:
        self.text = ""
        self.state: AnswerState = "open"
        self._words = words
        self._is_apart = False

    def is_open(self) -> bool:
        return self.state == "open"

    def add(self, part: TurnPart) -> None:
        match part:
            case TextAdded(text=text):
                self._add_text(text)
            case CallMade():
                # The next words are another message of the model.
                self._is_apart = True
            case CallWaits(kind=kind) if kind != "client":
                self._is_apart = True
                self._add_text(wait_text(self._words, part))
            case TurnWaits():
                self.state = "waits"
            case TurnEnded():
                self._end(part)
            case _:
                pass

    def finish(self) -> None:
        """Ends an answer whose events end without saying so: they are no longer kept."""
        self.state = "ended"
        self.text = self.text or self._words.nothing

    def _add_text(self, text: str) -> None:
        if self._is_apart and self.text:
            self.text += "\n\n"
        self._is_apart = False
        self.text += text

    def _end(self, part: TurnEnded) -> None:
        self.state = "ended"
        self._is_apart = True
        if part.error is not None:
            code, text = part.error
            self._add_text(self._words.failed.format(error=f"{text} ({code})"))
        elif part.outcome == "interrupted":
            self._add_text(self._words.was_stopped)
        elif not self.text.strip():
            self.text = self._words.nothing


def split(text: str, size_max: int, measure: Callable[[str], int]) -> list[str]:
    """Splits a text into pieces of at most that size, at the end of a line or a word where there is one.

    All pieces but the last stay the same when the text grows. A block of code that is cut is closed, and opened again.
    """
    pieces: list[str] = []
    opening = ""
    while measure(opening + text) > size_max:
        room = _fitting(text, size_max - _FENCE_ROOM, measure)
        head = text[:room]
        for mark in ("\n\n", "\n", " "):
            at = head.rfind(mark)
            if at > room // 2:
                head = head[: at + len(mark)]
                break
        text = text[len(head) :]
        piece = opening + head.rstrip()
        is_cut = piece.count(FENCE) % 2 == 1
        pieces.append(f"{piece}\n{FENCE}" if is_cut else piece)
        opening = f"{FENCE}\n" if is_cut else ""
    return [*pieces, opening + text]


def _fitting(text: str, size_max: int, measure: Callable[[str], int]) -> int:
    """Returns how many characters of a text have at most that size, at least one."""
    low, high = 1, min(len(text), size_max)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if measure(text[:middle]) <= size_max else (low, middle - 1)
    return low
