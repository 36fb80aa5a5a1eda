from agentvm.model.ids import MessageId, TurnId
from agentvm.model.knowledge import Passage
from agentvm.model.message import Citation, JsonOutput, ToolResult, ToolResultMessage
from agentvm.runtime.citations import CITATIONS_MAX, cited, numbered, sources_of

URI = "resource://knowledge/shop@1.0.0"
CITES = {1: f"{URI}#a:0-5", 2: f"{URI}#guides/b.pdf:p3:120-480"}


def result(turn: str, value: object, name: str = "search_knowledge") -> ToolResultMessage:
    told = ToolResult(id="c", name=name, output=JsonOutput(value=value))
    return ToolResultMessage(
        id=MessageId("m"), timestamp=1, turn_id=TurnId(turn), role="tool", tool_call_id="c", tool_result=told
    )


def test_numbers_go_on_with_each_search() -> None:
    passages = [Passage(uri=URI, document="a", start=at, end=at + 5, text="x") for at in (0, 9)]
    assert numbered({}, passages[:1]) == {1: f"{URI}#a:0-5"}
    assert numbered({1: "x"}, passages) == {1: "x", 2: f"{URI}#a:0-5", 3: f"{URI}#a:9-14"}


def test_only_passages_that_are_there_are_cited_each_once_in_the_order_of_the_text() -> None:
    assert cited("See [2], [1] and [2]; not [3] or [x](y).", CITES) == (
        Citation(n=2, cite=CITES[2]),
        Citation(n=1, cite=CITES[1]),
    )
    assert cited(f"See {CITES[2]}.", CITES) == (Citation(n=2, cite=CITES[2]),)
    assert cited(f"See {URI}#a:0-6", CITES) == ()
    assert cited("See [1]", {}) == ()
    many = {number: f"{URI}#a:{number}-{number + 1}" for number in range(1, 100)}
    assert len(cited(" ".join(f"[{number}]" for number in many), many)) == CITATIONS_MAX


def test_after_a_restart_the_results_of_the_turn_tell_the_numbers() -> None:
    passages = [{"n": 2, "cite": CITES[2]}, {"n": "3", "cite": "x"}, {"cite": "x"}, 7]
    messages = [
        result("t1", {"passages": [{"n": 1, "cite": "old"}]}),
        result("t2", {"passages": passages}),
        result("t2", {"passages": [{"n": 9, "cite": "forged"}]}, name="web_fetch"),
        result("t2", ["no"]),
        result("t2", {"passages": 5}),
    ]
    passage = Passage(uri=URI, document="a", start=0, end=5, text="green")
    assert sources_of([passage], messages, TurnId("t2")) == CITES
