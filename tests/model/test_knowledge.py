from hypothesis import given
from hypothesis import strategies as st

from agentvm.model.knowledge import Passage, parse_cite

NAMES = st.text(
    st.characters(exclude_categories=["Cc", "Cs", "Zs", "Zl", "Zp"], exclude_characters="#"), min_size=1, max_size=20
)


@given(NAMES, st.integers(0, 10**9), st.integers(0, 10**9), st.none() | st.integers(1, 999))
def test_a_citation_names_what_it_was_made_of(document: str, start: int, end: int, page: int | None) -> None:
    uri = "resource://knowledge/acme/docs@1.2.0"
    passage = Passage(uri=uri, document=document, start=start, end=end, text="", page=page)
    named = parse_cite(passage.cite)
    assert named is not None
    assert (named[0], named[3], named[4]) == (uri, start, end)
    assert page is None or named[2] == page
    assert document.startswith(named[1])


def test_what_is_no_citation_names_nothing() -> None:
    for text in ("", "resource://knowledge/a", "resource://knowledge/a#b", "resource://knowledge/a#b:1", "x#b:1-2"):
        assert parse_cite(text) is None
