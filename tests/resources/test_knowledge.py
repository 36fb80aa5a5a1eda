import pytest
from tests.resources.library import Library

from agentvm.errors.resource import ResourceInvalid, ResourceNotFound
from agentvm.resources.kind import accept
from agentvm.resources.kinds import KINDS
from agentvm.resources.knowledge import SEARCH_TEXT_MAX

KNOWLEDGE = KINDS["knowledge"]
DOCUMENTS = [
    {"id": "faq", "title": "Questions", "text": "问答", "mime": "text/markdown", "metadata": {"lang": "zh"}},
    {"id": "logo.png", "file": {"data": "aGk="}},
]


def test_it_is_rendered_as_a_manifest() -> None:
    library = Library()
    library.put("prompts", "how", {"text": "Look it up, {{name}}."})
    content = {
        "documents": DOCUMENTS,
        "chunking": {"size": 500, "overlap": 50},
        "retrieval": {"k": 5, "mode": "bm25"},
        "instructions": "resource://prompts/how",
    }
    assert library.render(library.put("knowledge", "docs", content), name="Ann") == {
        "documents": [
            {"id": "faq", "title": "Questions", "mime": "text/markdown", "size": 6},
            {"id": "logo.png", "mime": "application/octet-stream", "size": 2},
        ],
        "count": 2,
        "bytes": 8,
        "chunking": {"size": 500, "overlap": 50},
        "retrieval": {"k": 5, "mode": "bm25"},
        "instructions": "Look it up, Ann.",
    }


def test_a_fragment_is_the_text_of_a_document() -> None:
    library = Library()
    node = library.put("knowledge", "docs", {"documents": DOCUMENTS})
    assert library.render(node, "faq") == "问答"
    with pytest.raises(ResourceNotFound, match=r"resource://knowledge/docs@1\.0\.0#FAQ"):
        library.render(node, "FAQ")
    with pytest.raises(ResourceInvalid, match="is a file, not text"):
        library.render(node, "logo.png")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ({"documents": [{"id": "a", "text": ""}, {"id": "a", "text": ""}]}, "documents.1.id: 'a' is the id of another"),
        ({"documents": [{"id": "a"}]}, "documents.0 must have either text or file"),
        ({"documents": [{"id": "a", "text": "", "file": {"data": ""}}]}, "documents.0 must have either text or file"),
        ({"documents": [{"id": "a b", "text": ""}]}, "'a b' is no name of a document: no spaces"),
        ({"documents": [{"id": "a#b", "text": ""}]}, "'a#b' is no name of a document: no spaces"),
        ({"documents": [{"id": "../a", "text": ""}]}, "'../a' is no name of a document: no spaces, no #, and no part"),
        ({"documents": [], "retrieval": {"k": 21}}, "retrieval.k is 21; a search has at most 20 passages"),
        ({"documents": [{"id": "", "text": ""}]}, "documents.0.id"),
        ({"documents": [{"id": "a", "text": "", "mime": "text"}]}, "documents.0.mime"),
        ({"documents": [], "chunking": {"size": 10, "overlap": 10}}, "chunking.overlap (10) must be less than"),
        (
            {"documents": [], "retrieval": {"mode": "magic"}},
            "retrieval.mode must be one of bm25, both",
        ),
        ({"documents": [], "instructions": "Look it up"}, "instructions must be a URI such as resource://prompts/name"),
        ({"documents": [], "instructions": "resource://agents/x"}, "instructions cannot refer to agents"),
    ],
)
def test_knowledge_that_cannot_be_is_refused_by_the_name_of_the_member(content: dict[str, object], why: str) -> None:
    with pytest.raises(ResourceInvalid) as caught:
        accept(KNOWLEDGE, content)
    assert why in str(caught.value)


def test_it_is_found_by_titles_first_and_only_so_much_text() -> None:
    text = KNOWLEDGE.text(accept(KNOWLEDGE, {"documents": [{"id": "long", "text": "x" * 200_000}, *DOCUMENTS]}))
    assert text.startswith("long\nfaq\nQuestions\nlogo.png\nxxx")
    assert len(text) == SEARCH_TEXT_MAX


def test_its_only_reference_is_its_instructions() -> None:
    content = accept(KNOWLEDGE, {"documents": [], "instructions": "resource://prompts/how#short"})
    assert KNOWLEDGE.references(content) == {"instructions": "resource://prompts/how#short"}
    assert KNOWLEDGE.references(accept(KNOWLEDGE, {"documents": []})) == {}
