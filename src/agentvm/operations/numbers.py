"""Numbers and texts — the types of fields that many requests share."""

from typing import Annotated, Final

from msgspec import Meta

from agentvm.errors import InvalidInput

JSON_INTEGER_MAX: Final = 2**53 - 1
"""The largest number that every reader of JSON reads right."""
TEXT_MAX: Final = 2_000

Amount = Annotated[int, Meta(ge=0, le=JSON_INTEGER_MAX)]
Number = Annotated[int, Meta(ge=1, le=JSON_INTEGER_MAX)]
"""The number of an entry of a list."""


def check_text(text: str, field: str, max_length: int = TEXT_MAX) -> str:
    """Returns a line for people to read. Raises `InvalidInput` for one that is empty, too long or cannot be printed."""
    if not text.strip() or len(text) > max_length or not text.isprintable():
        raise InvalidInput(f"{field} must have 1 to {max_length} printable characters")
    return text
