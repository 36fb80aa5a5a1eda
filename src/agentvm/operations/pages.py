"""Pages — the one pagination of all lists: `cursor` and `limit` in the request, `nextCursor` in the reply."""

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Generic, TypeVar

from msgspec import Meta

from agentvm.errors import InvalidInput
from agentvm.model.base import Record
from agentvm.protocol.requests import Request

PAGE_MAX = 1_000
NUMBER_DIGITS_MAX = 15
INVALID_CURSOR = "Invalid cursor: pass the `nextCursor` of a previous page unchanged"

Limit = Annotated[int, Meta(ge=1, le=PAGE_MAX)]

T = TypeVar("T")


class PageRequest(Request[Any]):
    """`cursor` is the `nextCursor` of the previous page."""

    cursor: str | None = None
    limit: Limit = 100


class Page(Record, Generic[T]):
    """Part of a list. `nextCursor` is absent on the last page."""

    items: Sequence[T]
    next_cursor: str | None = None


def paged(items: Sequence[T], limit: int, cursor: Callable[[int], str]) -> Page[T]:
    """Returns a page of `limit` items, given one more if there are more; `cursor` names the item at an index."""
    if len(items) <= limit:
        return Page(items=items)
    return Page(items=items[:limit], next_cursor=cursor(limit - 1))


def page_of(items: Sequence[T], request: PageRequest, names: Iterable[str]) -> Page[T]:
    """Returns the page of a list that is in memory, whose items have these names."""
    named = list(names)
    start = 0
    if request.cursor is not None:
        if request.cursor not in named:
            raise InvalidInput(INVALID_CURSOR)
        start = named.index(request.cursor) + 1
    return paged(items[start : start + request.limit + 1], request.limit, lambda index: named[start + index])


def number_of(cursor: str | None) -> int | None:
    """Returns the number of an entry that the cursor of a numbered list names."""
    if cursor is None:
        return None
    if not is_number(cursor):
        raise InvalidInput(INVALID_CURSOR)
    return int(cursor)


def is_number(text: str) -> bool:
    """Whether a text is a whole number that fits: `int` refuses thousands of digits, and takes digits of any script."""
    return text.isascii() and text.isdigit() and len(text) <= NUMBER_DIGITS_MAX
