"""Places — the cursors of lists: where a page ended, as text that means nothing to who carries it back."""

import base64
import binascii
from typing import Any, TypeVar

import msgspec

from agentvm.errors import InvalidInput

T = TypeVar("T")
_encode = msgspec.json.Encoder().encode


def write_place(*where: object) -> str:
    return base64.urlsafe_b64encode(_encode(where)).rstrip(b"=").decode()


def read_place(text: str, kind: type[T]) -> T:
    """`InvalidInput` for what is no place of that kind."""
    try:
        raw = base64.b64decode(text.encode() + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        found: T = msgspec.json.decode(raw, type=kind)
    except (binascii.Error, msgspec.DecodeError, UnicodeError, ValueError):
        raise InvalidInput("This is no place where a list goes on: give the cursor of another page, as it was") from None
    _check(found)
    return found


def _check(numbers: Any) -> None:
    if any(isinstance(number, int) and abs(number) >= 2**63 for number in numbers):
        raise InvalidInput("This is no place where a list goes on: give the cursor of another page, as it was")
