import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.resources.library import Library

from agentvm.errors.resource import ResourceInvalid, ResourceNotFound
from agentvm.resources.kind import accept
from agentvm.resources.kinds import KINDS
from agentvm.resources.tool import model_name

TOOLS = KINDS["tools"]
SEARCH: dict[str, object] = {
    "description": "Searches the web",
    "inputSchema": {"type": "object", "properties": {"query": {"type": "string"}}},
    "runtime": "http",
    "entry": "https://search.example.org/",
}


def test_a_tool_is_rendered_as_models_are_told_it_and_as_it_is_run() -> None:
    library = Library()
    library.put("sandboxes", "box", {"runtime": "python"}, version="1.4.0")
    more = {"timeoutMs": 500, "secrets": ["token"], "permissions": ["net"], "sandbox": "resource://sandboxes/box@^1"}
    node = library.put("tools", "web.search", {**SEARCH, **more, "outputSchema": {"type": "string"}})
    assert library.render(node) == {
        "name": "web_search",
        **SEARCH,
        **more,
        "outputSchema": {"type": "string"},
        "sandbox": "resource://sandboxes/box@1.4.0",
        "resolved": {"sandbox": {"runtime": "python"}},
        "resourceId": node.resource.resource_id,
    }
    with pytest.raises(ResourceNotFound, match="#part"):
        library.render(node, "part")


def test_a_description_may_be_a_prompt_and_an_entry_another_tool() -> None:
    library = Library()
    library.put("prompts", "about", {"text": "Searches {{where}}"})
    library.put("tools", "search", SEARCH, owner="zoo")
    face = {**SEARCH, "description": "resource://prompts/about", "entry": "resource://tools/zoo/search"}
    node = library.put("tools", "face", face)
    assert library.render(node, where="here") == {
        **SEARCH,
        "name": "face",
        "description": "Searches here",
        "entry": "resource://tools/zoo/search@1.0.0",
        "resolved": {"entry": {**SEARCH, "name": "search"}},
    }
    assert TOOLS.references(accept(TOOLS, face)) == {
        "description": "resource://prompts/about",
        "entry": "resource://tools/zoo/search",
    }


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"inputSchema": {"type": "array"}}, "inputSchema must be the schema of an object"),
        ({"inputSchema": {"type": "objekt"}}, "inputSchema.type is not a valid JSON Schema"),
        ({"outputSchema": {"$ref": "http://example.org"}}, "outputSchema.$ref"),
        ({"runtime": "fortran"}, "runtime must be one of agent"),
        ({"inputSchema": None}, "inputSchema"),
        ({"runtime": "agent"}, "entry must be a URI such as resource://agents/name"),
        ({"runtime": "command", "entry": "rm -rf /"}, "entry: a command is a JSON array of texts"),
        ({"runtime": "command", "entry": '["{query}"]'}, "the first element is the program itself"),
        ({"runtime": "command", "entry": '["ls", "{other}"]'}, "entry uses 'other', which is not among inputSchema"),
        ({"runtime": "openapi", "entry": "https://a.example.org/openapi.json"}, "named with its digest"),
        ({"runtime": "mcp", "entry": "stdio:/bin/sh"}, "set up by the operator"),
        ({"runtime": "mcp", "entry": "https://a.example.org/mcp#a b"}, "the name of one tool"),
        ({"runtime": "provider", "entry": "web_search"}, "<provider>/<tool>"),
        ({"runtime": "provider", "entry": "anthropic/web_search_20260209"}, "inputSchema has no meaning"),
        ({"runtime": "client", "entry": "pick", "repeat": "safe"}, "repeat has no meaning"),
        ({"runtime": "builtin", "entry": "calculator", "timeoutMs": 5}, "timeoutMs has no meaning"),
        ({"runtime": "python", "http": {}}, "http has no meaning for a tool with the runtime python"),
        ({"runtime": "shell", "entry": "ls", "needs": {"engine": "python-subset"}}, "python-subset does not run tools"),
        ({"select": ["a"]}, "select has no meaning for a tool with the runtime http"),
        ({"effect": "destructive", "repeat": "safe"}, "a destructive tool is not safe to repeat"),
        ({"runtime": "mcp", "entry": "stdio:files", "pin": {"a": "md5:1"}}, "pin.a is not a digest"),
        ({"http": {"headers": {"X": "{query} ${secret:KEY}"}}, "secrets": ["KEY"]}, "mixes an argument and a secret"),
        ({"http": {"headers": {"X": "${secret:KEY}"}}}, "uses 'KEY', which is not among secrets"),
        ({"http": {"query": {"q": "{word}"}}}, "http.query.q uses 'word'"),
        ({"http": {"headers": {"X": "a\r\nb"}}}, "has a line break"),
        ({"http": {"pick": "data"}}, "http.pick is a JSON pointer"),
        ({"timeoutMs": 0}, "timeoutMs must be a whole number, at least 1"),
        ({"secrets": ["a", "a"]}, "secrets lists an entry twice"),
        ({"secrets": [""]}, "secrets.0"),
        ({"runtime": "client", "entry": "x", "secrets": ["a"]}, "secrets has no meaning for a tool with the runtime client"),
        ({"runtime": "shell", "entry": "x", "secrets": ["a.b"]}, "'a.b' cannot be a variable"),
        ({"sandbox": "box"}, "sandbox must be a URI such as resource://sandboxes/name"),
        ({"sandbox": "resource://tools/x"}, "sandbox cannot refer to tools"),
        ({"entry": "resource://agents/x"}, "entry cannot refer to agents"),
        ({"description": "resource://prompts/UP PER"}, "description: "),
        ({"entry": ""}, "entry"),
    ],
)
def test_a_tool_that_cannot_be_is_refused_by_the_name_of_the_member(change: dict[str, object], why: str) -> None:
    with pytest.raises(ResourceInvalid) as caught:
        accept(TOOLS, {**SEARCH, **change})
    assert why in str(caught.value)


def test_it_is_found_by_its_description_and_the_names_of_its_arguments() -> None:
    assert TOOLS.text(accept(TOOLS, SEARCH)) == "Searches the web\nquery"


@given(st.from_regex(r"[a-z0-9]([a-z0-9._-]{0,126}[a-z0-9])?", fullmatch=True))
def test_every_name_is_made_fit_for_providers(name: str) -> None:
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", model_name(name))


def test_names_that_are_too_long_stay_different() -> None:
    assert model_name("a" * 100 + "b") != model_name("a" * 100 + "c")


def test_that_arguments_are_an_object_is_said_also_where_it_was_not() -> None:
    library = Library()
    spec = library.render(library.put("tools", "t", {**SEARCH, "inputSchema": {}}))
    assert isinstance(spec, dict)
    assert spec["inputSchema"] == {"type": "object"}
