import pytest
from tests.support.session_files import call_context

from agentvm.errors import ToolFailed
from agentvm.model.knowledge import DocumentProblem, FoundPassages, Passage
from agentvm.resources.schema import check_schema
from agentvm.runtime.policy import CallFacts, decide
from agentvm.tools.base import CallContext, Caller
from agentvm.tools.builtin.search_knowledge import SearchKnowledge

PASSAGE = Passage(uri="resource://knowledge/a@1.0.0", document="d", start=3, end=6, text="tea", heading="Drinks", page=2)


async def test_the_model_gets_passages_with_their_citations_and_what_was_not_searched() -> None:
    asked: list[tuple[str, int | None]] = []

    async def search(question: str, k: int | None) -> FoundPassages:
        asked.append((question, k))
        return FoundPassages(passages=(PASSAGE,), problems=(DocumentProblem(document="x", problem="damaged"),), first=4)

    context = CallContext(key="t/c", caller=Caller("acme", "ann"), deadline=0, knowledge=search)
    result = await SearchKnowledge().run({"query": "tea", "k": 2}, context)
    assert asked == [("tea", 2)]
    cite = "resource://knowledge/a@1.0.0#d:p2:3-6"
    assert result.value == {
        "passages": [{"n": 4, "cite": cite, "heading": "Drinks", "text": "tea"}],
        "citeAs": "[4]: in your answer name what you use by its n",
        "notSearched": ["x: damaged"],
    }


async def test_few_of_many_unread_documents_are_named() -> None:
    async def search(question: str, k: int | None) -> FoundPassages:
        return FoundPassages(passages=(), problems=tuple(DocumentProblem(document=str(at), problem="bad") for at in range(9)))

    context = CallContext(key="t/c", caller=Caller("acme", "ann"), deadline=0, knowledge=search)
    result = await SearchKnowledge().run({"query": "tea"}, context)
    unread = ["0: bad", "1: bad", "2: bad", "3: bad", "4: bad", "and 4 documents more"]
    assert result.value == {"passages": [], "notSearched": unread}


async def test_without_a_knowledge_base_it_says_so_and_it_needs_nobodys_approval() -> None:
    tool = SearchKnowledge()
    with pytest.raises(ToolFailed, match="no knowledge base"):
        await tool.run({"query": "tea"}, call_context(None))
    check_schema("inputSchema", tool.spec.input_schema)
    facts = CallFacts(tool=tool.spec.name, runtime="builtin", effect=tool.effect, world=tool.world)
    assert (decide(facts, ()).do, tool.repeat) == ("allow", "safe")
