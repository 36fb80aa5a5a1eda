"""Bounds — how much JSON a peer may send, checked on the raw text before anything is built of it.

Theory of operation. The text `[],` has 3 bytes and becomes 60 bytes of objects, and the decoder holds the whole process while
it builds them. So every command and every route declares a `Bound`, and the text is checked against it first: its length, the
number of its values and its nesting. Values are counted by the commas and opening brackets outside strings, never fewer than
the decoder would build. Text is scanned piece by piece, so that a caller with a large text can let others run in between.

A text on which scan and decoder disagree is not valid JSON, and the decoder stops where the disagreement begins.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from agentvm.errors.bounds import InputTooLarge

PIECE_BYTES = 256 * 1024

_BRACKETS = b"[]{}"
_NOT_BRACKETS = bytes(code for code in range(256) if code not in _BRACKETS)
# An opening bracket adds a level, a closing one takes it away.
_LEVELS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The most that a JSON text may hold: bytes, values (with members of objects), and levels of nesting."""

    max_bytes: int
    max_values: int
    max_depth: int = 512


class Scan:
    """Counts the values and the nesting of one JSON text, and refuses a text beyond the bound with `InputTooLarge`."""

    __slots__ = ("_bound", "_depth", "_in_string", "_subject", "deepest", "values")

    def __init__(self, bound: Bound, subject: str) -> None:
        self._bound = bound
        self._subject = subject
        self._in_string = False
        self._depth = 0
        self.deepest = 0
        """Never less than the deepest nesting so far."""
        self.values = 0

    def feed(self, piece: bytes) -> None:
        """The next piece, as `cut` makes them: none ends within an escape sequence."""
        if b"\\" in piece:
            # Pairs of backslashes first: the quote after one of them ends its string.
            piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        quotes = piece.count(b'"')
        if quotes > 2 * (self._bound.max_values + 1):
            raise self._too_many()
        parts = piece.split(b'"')
        outside = b"".join(parts[self._in_string :: 2]) if quotes else b"" if self._in_string else piece
        self._in_string ^= bool(quotes % 2)
        if outside:
            self._count(outside)

    def fits(self, bound: Bound) -> bool:
        """Whether a part of the scanned text is certainly within another bound, its length aside."""
        return self.values <= bound.max_values and self.deepest <= bound.max_depth

    def _count(self, outside: bytes) -> None:
        opened = outside.count(b"[") + outside.count(b"{")
        self.values += opened + outside.count(b",")
        if self.values > self._bound.max_values:
            raise self._too_many()
        deepest = self._depth + opened
        if deepest > self._bound.max_depth:
            brackets = outside.translate(None, _NOT_BRACKETS)
            deepest = max(accumulate((_LEVELS[code] for code in brackets), initial=self._depth))
            if deepest > self._bound.max_depth:
                raise InputTooLarge(f"{self._subject} is nested too deeply; at most {self._bound.max_depth} levels are allowed")
        self.deepest = max(self.deepest, deepest)
        self._depth += opened - outside.count(b"]") - outside.count(b"}")

    def _too_many(self) -> InputTooLarge:
        return InputTooLarge(f"{self._subject} holds too many values; at most {self._bound.max_values:,} are allowed")


def check(text: bytes, bound: Bound, subject: str) -> None:
    """`InputTooLarge` for a text beyond the bound; `subject` begins the sentence that says so."""
    check_length(len(text), bound, subject)
    # A value has at least a byte, a level at least a bracket; nearly every text is this small.
    if len(text) <= bound.max_values and text.count(b"[") + text.count(b"{") <= bound.max_depth:
        return
    scan = Scan(bound, subject)
    for piece in cut(text):
        scan.feed(piece)


def check_length(length: int, bound: Bound, subject: str) -> None:
    if length > bound.max_bytes:
        raise InputTooLarge(f"{subject} has {length:,} bytes; at most {bound.max_bytes:,} are allowed")


def cut(text: bytes) -> Iterator[bytes]:
    """The text in pieces, none of which ends within an escape sequence."""
    begin = 0
    while begin < len(text):
        piece = text[begin : begin + PIECE_BYTES]
        backslashes = len(piece) - len(piece.rstrip(b"\\"))
        if backslashes % 2 and len(piece) > 1:
            piece = piece[:-1]
        yield piece
        begin += len(piece)
