"""JSON items — the elements of a JSON array, one at a time as text, however long the array is.

Nothing is decoded here, and nothing is held but the element that is looked at. A text that is no array is one element.
Whether an element is JSON says who decodes it; here only strings and brackets are told apart.
"""

import re
from collections.abc import Callable, Iterator

from agentvm.errors.archive import ArchiveTooLarge
from agentvm.sessions.bounds import NESTING_MAX, count_values
from agentvm.sessions.line import Unfit

MAX_ITEM_BYTES = 64 * 1024 * 1024
MAX_ITEM_VALUES = 1_000_000
BLOCK_BYTES = 1024 * 1024

_BOM = b"\xef\xbb\xbf"
_SPACE = b" \t\r\n"
# A quote that opens a string which has no end yet comes alone.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|["\[\]{},]', re.DOTALL)

Read = Callable[[int], bytes]


def items(read: Read) -> Iterator[bytes]:
    """`read` gives the next bytes, none at the end. `Unfit` for an array without an end, `ArchiveTooLarge` for an element."""
    text = _Text(read)
    text.skip_space()
    if text.next != b"[":
        yield text.whole()
        return
    text.at += 1
    first = True
    while True:
        item, ending = text.item()
        body = item.strip(_SPACE)
        if body or ending == b"," or not first:
            yield body
        first = False
        if ending == b"]":
            break
    text.skip_space()
    if text.next:
        raise Unfit("there is data after the end of the array")


class _Text:
    """The text that was read and not yielded yet, from `at` on."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._buffer = b""
        self.at = 0
        while len(self._buffer) < len(_BOM) and self._more():
            pass
        self.at = len(_BOM) if self._buffer.startswith(_BOM) else 0

    @property
    def next(self) -> bytes:
        return self._buffer[self.at : self.at + 1]

    def skip_space(self) -> None:
        while True:
            left = self._buffer[self.at :].lstrip(_SPACE)
            self.at = len(self._buffer) - len(left)
            if left or not self._more():
                return

    def whole(self) -> bytes:
        while self._more():
            _check_size(len(self._buffer) - self.at)
        body = self._buffer[self.at :].strip(_SPACE)
        count_values(body, MAX_ITEM_VALUES)
        return body

    def item(self) -> tuple[bytes, bytes]:
        """The text up to the comma or bracket that ends it, and which of both that is."""
        looked, depth, values = self.at, 0, 0
        while True:
            for token in _TOKEN.finditer(self._buffer, looked):
                sign = token[0]
                if sign == b'"':
                    # Its end has not come yet.
                    looked = token.start()
                    break
                looked = token.end()
                if sign in (b"[", b"{"):
                    depth += 1
                    values += 1
                elif sign == b"," and depth:
                    values += 1
                elif sign in (b"]", b"}") and depth:
                    depth -= 1
                elif sign in (b",", b"]"):
                    item, self.at = self._buffer[self.at : token.start()], looked
                    _check_size(len(item))
                    return item, sign
                _check_shape(depth, values)
            else:
                looked = len(self._buffer)
            looked -= self.at
            _check_size(len(self._buffer) - self.at)
            if not self._more():
                raise Unfit("it is truncated: the array has no end")
            looked += self.at

    def _more(self) -> bool:
        """At least as much again as there is, so that a long string is not looked at over and over."""
        left = self._buffer[self.at :]
        block = self._read(max(BLOCK_BYTES, min(len(left), MAX_ITEM_BYTES)))
        self._buffer, self.at = left + block, 0
        return bool(block)


def _check_size(size: int) -> None:
    if size > MAX_ITEM_BYTES:
        raise ArchiveTooLarge(f"A conversation has more than {MAX_ITEM_BYTES:,} bytes; nothing was written")


def _check_shape(depth: int, values: int) -> None:
    if depth > NESTING_MAX:
        raise ArchiveTooLarge(f"A conversation is nested more than {NESTING_MAX} levels deep; nothing was written")
    if values > MAX_ITEM_VALUES:
        raise ArchiveTooLarge(f"A conversation has more than {MAX_ITEM_VALUES:,} values; nothing was written")
