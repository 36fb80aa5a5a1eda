"""Places — the cursors of lists: where a page ended, as an opaque text."""

import base64
import binascii
from typing import Any, TypeVar

import msgspec

from agentvm.errors import InvalidInput

T = TypeVar("T")
_encode = msgspec.json.Encoder().encode


INVALID_CURSOR = "Invalid cursor: pass the `nextCursor` of a previous page unchanged"


def write_place(*where: object) -> str:
    return base64.urlsafe_b64encode(_encode(where)).rstrip(b"=").decode()


def read_place(text: str, kind: type[T]) -> T:
    """Decodes a cursor of the kind; `InvalidInput` for any other text."""
    try:
        raw = base64.b64decode(text.encode() + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        place: T = msgspec.json.decode(raw, type=kind)
    except (binascii.Error, msgspec.DecodeError, UnicodeError, ValueError):
        raise InvalidInput(INVALID_CURSOR) from None
    _check(place)
    return place


def _check(numbers: Any) -> None:
    if any(isinstance(number, int) and abs(number) >= 2**63 for number in numbers):
        raise InvalidInput(INVALID_CURSOR)
