import pytest

from agentvm.errors import InvalidInput
from agentvm.server.http.route import PageGiven, check_text, moment, page_of, paged


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        (None, None),
        ("0", 0),
        ("1700000000000", 1_700_000_000_000),
        ("2023-11-14", 1_699_920_000_000),
        ("2023-11-14T22:13:20", 1_700_000_000_000),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-15T00:13:20+02:00", 1_700_000_000_000),
    ],
)
def test_a_moment_is_a_date_a_time_or_a_number(text: str | None, ms: int | None) -> None:
    assert moment(text, "since") == ms


@pytest.mark.parametrize("text", ["", "now", "2023-13-01", "-5", "1e5", "9" * 16, "٣", "0001-01-01T00:00:00+14:00x"])
def test_anything_else_is_no_moment(text: str) -> None:
    with pytest.raises(InvalidInput, match="since"):
        moment(text, "since")


def test_a_page_names_the_next_only_if_there_is_more() -> None:
    assert paged([1, 2], 2, str).next is None
    more = paged([1, 2, 3], 2, lambda index: f"after {index}")
    assert (more.items, more.next) == ([1, 2], "after 1")


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 7])
@pytest.mark.parametrize("limit", [1, 2, 3, 10])
def test_the_pages_of_a_list_are_the_list(size: int, limit: int) -> None:
    items = list(range(size))
    seen: list[object] = []
    given = PageGiven(limit=limit)
    while True:
        page = page_of(items, given, map(str, items))
        seen += page.items
        if page.next is None:
            break
        given = PageGiven(limit=limit, after=page.next)
    assert seen == items


def test_a_cursor_of_another_list_is_refused() -> None:
    with pytest.raises(InvalidInput):
        page_of([1], PageGiven(after="2"), ["1"])


@pytest.mark.parametrize("text", ["", "  ", "a\nb", "\x1b[31m", "\ud800", "x" * 11])
def test_what_cannot_be_shown_in_a_line_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="name"):
        check_text(text, "name", 10)
    assert check_text("Ünïcode 名", "name", 10) == "Ünïcode 名"
