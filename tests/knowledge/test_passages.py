import pytest

from agentvm.errors import ToolFailed
from agentvm.knowledge import passages
from agentvm.knowledge.parse import ParsedDocument, ParsedPage
from agentvm.knowledge.passages import IndexForm, cut


def test_a_form_is_read_again_as_it_was_written() -> None:
    for form in (IndexForm(), IndexForm(size=60, overlap=0, embedder="openai/text-embedding-3-small", chunker=7)):
        assert IndexForm.parse(str(form)) == form


def test_ranges_count_over_pages_and_words_are_those_of_titles_too() -> None:
    parsed = ParsedDocument((ParsedPage(1, "Green tea."), ParsedPage(2, "Ｂlack tea.")), "Ｔea")
    first, second = cut("a.pdf", None, parsed, IndexForm())
    assert (first.passage.start, first.passage.end, first.passage.page) == (0, 10, 1)
    assert (second.passage.start, second.passage.end, second.passage.page) == (11, 21, 2)
    assert second.passage.text == "Ｂlack tea."
    assert list(second.terms) == ["tea", "black", "tea"]
    assert [one.passage.title for one in cut("a.pdf", "Mine", parsed, IndexForm())] == ["Mine", "Mine"]


@pytest.mark.parametrize("form", [IndexForm(size=1, overlap=0), IndexForm(size=50_000, overlap=49_999)])
def test_a_document_that_becomes_too_many_passages_is_refused_before_they_are_made(
    form: IndexForm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passages, "CHUNKS_MAX", 1_000)
    monkeypatch.setattr(passages, "PASSAGES_MAX_CHARACTERS", 200_000)
    parsed = ParsedDocument((ParsedPage(None, "茶" * 100_000),))
    with pytest.raises(ToolFailed, match="cut it into larger ones"):
        cut("a.txt", None, parsed, form)
