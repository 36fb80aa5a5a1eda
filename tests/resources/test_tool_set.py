import pytest

from agentvm.errors.resource import ResourceInvalid
from agentvm.resources.kind import accept
from agentvm.resources.kinds import KINDS
from agentvm.resources.tool_set import expand

SCHEMA: dict[str, object] = {"type": "object"}
DIGEST = "sha256:" + "0" * 64
PETS = {
    "uri": "resource://tools/pets@1.0.0",
    "name": "pets",
    "runtime": "openapi",
    "entry": f"https://pets.example/openapi.json@{DIGEST}",
    "description": "Pets",
    "secrets": ["KEY"],
    "timeoutMs": 5,
    "frozen": {
        "getPet": {"description": "Finds.", "inputSchema": SCHEMA, "entry": "GET https://pets.example/1", "effect": "read"},
        "dropPet": {"description": "Drops.", "inputSchema": SCHEMA, "entry": "DELETE https://pets.example/1",
                    "effect": "destructive", "http": {"body": "none"}},
    },
}  # fmt: skip
FILES = {
    "uri": "resource://tools/files@2.0.0",
    "name": "files",
    "runtime": "mcp",
    "entry": "stdio:files",
    "description": "Files",
    "frozen": {"read/one": {"description": "Reads.", "inputSchema": {}, "pin": DIGEST}},
}


def test_each_operation_of_a_document_is_an_http_tool() -> None:
    first, second = expand(PETS)
    assert first == {
        "uri": "resource://tools/pets@1.0.0#getPet",
        "name": "pets__getPet",
        "description": "Finds.",
        "inputSchema": SCHEMA,
        "runtime": "http",
        "entry": "GET https://pets.example/1",
        "effect": "read",
        "ask": False,
        "secrets": ["KEY"],
        "timeoutMs": 5,
    }
    assert (second["name"], second["http"], second["effect"]) == ("pets__dropPet", {"body": "none"}, "destructive")


def test_a_tool_of_an_mcp_server_keeps_its_pin_and_has_a_name_that_models_accept() -> None:
    (tool,) = expand(FILES)
    assert (tool["name"], tool["entry"], tool["pin"]) == ("files__read_one", "stdio:files#read/one", DIGEST)
    assert (tool["inputSchema"], tool["effect"]) == ({"type": "object"}, "write")


def test_one_tool_of_a_server_has_the_name_and_description_of_its_resource() -> None:
    (tool,) = expand({**FILES, "entry": "stdio:files#read/one"})
    assert (tool["name"], tool["description"], tool["uri"]) == ("files", "Files", FILES["uri"])
    assert tool["entry"] == "stdio:files#read/one"


def test_the_set_states_defaults_and_a_tool_may_differ() -> None:
    read, drop = expand({**PETS, "effect": "write", "repeat": "safe", "tools": {"getPet": {"effect": "read", "ask": True}}})
    assert (read["effect"], read["repeat"], read["ask"]) == ("read", "safe", True)
    # A document says more of an operation than its set, and a destructive tool is not safe to repeat.
    assert (drop["effect"], "repeat" in drop, drop["ask"]) == ("destructive", False, False)


def test_any_other_tool_is_itself() -> None:
    assert expand({"name": "a", "runtime": "http"}) == ({"name": "a", "runtime": "http"},)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"tools": {"read": {}}}, "tools.read is not a tool of the set, which has the tool read/one"),
        ({"pin": {"write": DIGEST}}, "pin.write is not a tool of the set"),
        ({"pin": {"read/one": "sha256:" + "1" * 64}}, "describes the tool otherwise"),
        ({"frozen": {"a": {"description": "x", "inputSchema": {}}}}, "frozen.a.pin is not a digest"),
        ({"frozen": {"a": {"description": "x", "inputSchema": {"type": 7}, "pin": DIGEST}}}, "frozen.a.inputSchema"),
        ({"document": {"data": ""}}, "document has no meaning"),
        ({"runtime": "openapi", "entry": f"blob:{DIGEST}", "frozen": None}, "document: the entry has to be"),
        ({"runtime": "openapi", "entry": f"blob:{DIGEST}", "frozen": None, "document": {"data": "eA=="}}, "sha256:2d711642"),
    ],
)  # fmt: skip
def test_a_set_that_contradicts_itself_is_refused(change: dict[str, object], why: str) -> None:
    content = {name: value for name, value in FILES.items() if name not in ("uri", "name")}
    with pytest.raises(ResourceInvalid) as caught:
        accept(KINDS["tools"], {**content, **change})
    assert why in str(caught.value)
