from typing import Any

import pytest
from tests.resources.library import Library

from agentvm.errors.resource import PromptUnresolved, ResourceInvalid, ResourceNotFound, ResourceTooLarge
from agentvm.model.definition import Definition
from agentvm.resources.agent import AgentContent, to_definition
from agentvm.resources.kind import accept
from agentvm.resources.kinds import KINDS

AGENTS = KINDS["agents"]
SEARCH: dict[str, object] = {
    "description": "Searches",
    "inputSchema": {"type": "object"},
    "runtime": "http",
    "entry": "https://example.org",
}
SALES: dict[str, object] = {
    "description": "Sells",
    "systemPrompt": "resource://prompts/sales@^1#greeting",
    "model": "anthropic/claude",
    "maxTokens": 100,
    "temperature": 0.5,
    "thinking": 10,
    "tools": ["resource://tools/search", "calculator"],
    "sandbox": "resource://sandboxes/box",
    "knowledge": ["resource://knowledge/docs"],
    "defaults": {"name": "you", "shop": "Acme"},
}


@pytest.fixture
def library() -> Library:
    library = Library()
    library.put("prompts", "sales", {"text": "# Greeting\nHello {{name}}, this is {{shop}}.\n# Rest\n{{gone}}"})
    library.put("tools", "search", SEARCH)
    library.put("sandboxes", "base", {"runtime": "python"})
    library.put("sandboxes", "box", {"extends": "resource://sandboxes/base", "env": {"A": "1"}})
    library.put("knowledge", "docs", {"documents": [{"id": "a", "text": "x"}]})
    return library


def render(library: Library, content: dict[str, object], **args: object) -> Any:
    return library.render(library.put("agents", "sales", content), **args)


def test_an_agent_is_rendered_without_references(library: Library) -> None:
    assert render(library, SALES, name="Ann") == {
        "name": "sales",
        "description": "Sells",
        "systemPrompt": "Hello Ann, this is Acme.",
        "model": "anthropic/claude",
        "maxTokens": 100,
        "temperature": 0.5,
        "thinking": 10,
        "tools": [{"name": "search", **SEARCH}, {"name": "calculator"}],
        "sandbox": {"runtime": "python", "env": {"A": "1"}},
        "knowledge": [
            {
                "uri": "resource://knowledge/docs@1.0.0",
                "name": "docs",
                "documents": [{"id": "a", "mime": "text/plain", "size": 1}],
                "count": 1,
                "bytes": 1,
            }
        ],
    }


def test_skills_are_rendered_with_their_front_matter(library: Library) -> None:
    library.put("skills", "pdf", {"text": "---\nname: pdf\ndescription: Reads PDF.\n---\n"})
    rendered = render(library, {"skills": ["resource://skills/pdf@^1"]})
    skill = {"uri": "resource://skills/pdf@1.0.0", "name": "pdf", "description": "Reads PDF.", "files": []}
    assert rendered == {"name": "sales", "knowledge": [], "skills": [skill]}


def test_what_is_unset_is_left_out_and_no_tools_are_not_all_tools(library: Library) -> None:
    assert render(library, {}) == {"name": "sales", "knowledge": []}
    assert render(library, {"tools": []}) == {"name": "sales", "knowledge": [], "tools": []}


def test_a_prompt_that_is_written_out_is_taken_as_it_is(library: Library) -> None:
    assert render(library, {"systemPrompt": "{{name}}"}, name="Ann")["systemPrompt"] == "{{name}}"


def test_variables_without_a_value_are_named(library: Library) -> None:
    with pytest.raises(PromptUnresolved) as caught:
        render(library, {"systemPrompt": "resource://prompts/sales"}, name="Ann")
    assert caught.value.details["unresolved"] == ["shop", "gone"]


def test_tools_that_would_be_called_the_same_get_a_number(library: Library) -> None:
    library.put("tools", "search", SEARCH, owner="zoo")
    library.put("tools", "calculator", SEARCH)
    tools = ["resource://tools/search", "resource://tools/zoo/search", "resource://tools/calculator", "calculator"]
    assert [tool["name"] for tool in render(library, {"tools": tools})["tools"]] == [
        "search",
        "search_2",
        "calculator_2",
        "calculator",
    ]


def test_one_tool_by_two_names_is_one_tool(library: Library) -> None:
    tools = ["resource://tools/search", "resource://tools/search@^1.0.0"]
    assert len(render(library, {"tools": tools})["tools"]) == 1


def test_it_has_no_parts_with_names(library: Library) -> None:
    with pytest.raises(ResourceNotFound, match="#part"):
        library.render(library.put("agents", "a", {}), "part")


def test_what_it_refers_to_is_counted_as_it_grows(library: Library) -> None:
    tools = []
    for index in range(100):
        library.put("tools", f"t{index}", {**SEARCH, "description": "x" * 60_000})
        tools.append(f"resource://tools/t{index}")
    with pytest.raises(ResourceTooLarge):
        render(library, {"tools": tools})


def test_as_a_definition_it_keeps_its_references() -> None:
    content = accept(AGENTS, SALES)
    assert isinstance(content, AgentContent)
    assert to_definition("sales", content) == Definition(
        name="sales",
        description="Sells",
        system_prompt="resource://prompts/sales@^1#greeting",
        model="anthropic/claude",
        max_tokens=100,
        temperature=0.5,
        thinking=10,
        tools=("resource://tools/search", "calculator"),
        sandbox="resource://sandboxes/box",
        knowledge=("resource://knowledge/docs",),
        variables={"name": "you", "shop": "Acme"},
    )
    assert to_definition("plain", AgentContent()) == Definition(name="plain")


def test_references_say_where_they_stand() -> None:
    assert AGENTS.references(accept(AGENTS, SALES)) == {
        "systemPrompt": "resource://prompts/sales@^1#greeting",
        "sandbox": "resource://sandboxes/box",
        "tools.0": "resource://tools/search",
        "knowledge.0": "resource://knowledge/docs",
    }
    assert AGENTS.references(accept(AGENTS, {"systemPrompt": "Hello", "tools": ["calculator"]})) == {}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ({"systemPrompt": "resource://tools/x"}, "systemPrompt cannot refer to tools"),
        ({"systemPrompt": "resource://"}, "systemPrompt: 'resource://' is not a valid resource URI"),
        ({"tools": ["a", "resource://prompts/x"]}, "tools.1 cannot refer to prompts"),
        ({"tools": ["resource://tools/x#y"]}, "tools.0 takes the whole"),
        ({"tools": ["a\nb"]}, "tools.0: 'a\\nb' is neither"),
        ({"tools": ["a", "a"]}, "tools lists an entry twice"),
        ({"sandbox": "box"}, "sandbox must be a URI"),
        ({"knowledge": ["docs"]}, "knowledge.0 must be a URI"),
        ({"skills": ["resource://tools/x"]}, "skills.0 cannot refer to tools"),
        ({"skills": ["resource://skills/a/x", "resource://skills/b/x"]}, "two of one name"),
        ({"knowledge": ["resource://knowledge/x#y"]}, "knowledge.0 takes the whole"),
        ({"model": "resource://agents/x"}, "model must be the name of a model"),
        ({"temperature": 3}, "temperature"),
        ({"maxTokens": 0}, "maxTokens"),
        ({"thinking": -1}, "thinking"),
        ({"defaults": {f"v{i}": 1 for i in range(2_000)}}, "defaults has more than"),
        ({"sytemPrompt": "x"}, "did you mean systemPrompt?"),
    ],
)
def test_an_agent_that_cannot_be_is_refused_by_the_name_of_the_member(content: dict[str, object], why: str) -> None:
    with pytest.raises(ResourceInvalid) as caught:
        accept(AGENTS, content)
    assert why in str(caught.value)


def test_it_is_found_by_what_it_says_and_not_by_uris() -> None:
    assert AGENTS.text(accept(AGENTS, SALES)) == "Sells\nanthropic/claude"
    assert AGENTS.text(accept(AGENTS, {"systemPrompt": "Be kind"})) == "Be kind"
