import pytest

from agentvm.errors import InvalidInput
from agentvm.operations.pages import PageRequest, number_of, page_of, paged


def test_a_page_has_a_next_cursor_only_if_there_is_more() -> None:
    assert paged([1, 2], 2, str).next_cursor is None
    more = paged([1, 2, 3], 2, lambda index: f"after {index}")
    assert (more.items, more.next_cursor) == ([1, 2], "after 1")


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 7])
@pytest.mark.parametrize("limit", [1, 2, 3, 10])
def test_the_pages_of_a_list_are_the_list(size: int, limit: int) -> None:
    items = list(range(size))
    seen: list[object] = []
    request = PageRequest(limit=limit)
    while True:
        page = page_of(items, request, map(str, items))
        seen += page.items
        if page.next_cursor is None:
            break
        request = PageRequest(limit=limit, cursor=page.next_cursor)
    assert seen == items


def test_a_cursor_of_another_list_is_refused() -> None:
    with pytest.raises(InvalidInput, match="nextCursor"):
        page_of([1], PageRequest(cursor="2"), ["1"])


def test_a_numbered_list_goes_on_after_a_number() -> None:
    assert (number_of(None), number_of("0"), number_of("12")) == (None, 0, 12)
    for cursor in ("", "x", "-1", "1.5", "²", "9" * 16):
        with pytest.raises(InvalidInput, match="nextCursor"):
            number_of(cursor)
