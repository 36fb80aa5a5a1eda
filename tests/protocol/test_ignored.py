import msgspec
import pytest

from agentvm.operations.image_build import ImageBuild, ImageCreate, ImageUpdate
from agentvm.operations.table import CODEC
from agentvm.protocol.ignored import REPORTED_MAX, describe_ignored


def ignored(name: str, **data: object) -> tuple[str, ...]:
    command = CODEC.decode(name, msgspec.Raw(msgspec.json.encode(data)))
    assert isinstance(command, ImageCreate | ImageBuild | ImageUpdate)
    return command.ignored


@pytest.mark.parametrize(
    ("name", "data", "names"),
    [
        ("image_create", {"containerId": "c", "requestId": "r", "config": {"name": "n", "model": "m"}}, ()),
        ("image_create", {"containerId": "c", "config": None}, ()),
        ("image_create", {"containerId": "c"}, ()),
        ("image_create", {"containerId": "c", "config": {"temprature": 1}}, ("config.temprature",)),
        ("image_create", {"containerId": "c", "apiKey": "sk", "config": {"mcpServer": {}}}, ("apiKey", "config.mcpServer")),
        ("image_build", {"containerId": "c", "definition": {"name": "d", "apiKey": "sk"}}, ("definition.apiKey",)),
        ("image_build", {"containerId": "c", "definition": "d", "config": {"x": 1}}, ("config.x",)),
        ("image_update", {"imageId": "i", "updates": {"name": "n", "apiKeys": "sk"}}, ("updates.apiKeys",)),
    ],
)
def test_fields_that_nobody_knows_are_named(name: str, data: dict[str, object], names: tuple[str, ...]) -> None:
    assert ignored(name, **data) == names


def test_a_long_list_is_cut_and_odd_names_are_quoted_and_cut() -> None:
    assert len(ignored("image_create", containerId="c", config={f"x{number}": 1 for number in range(500)})) == REPORTED_MAX
    (name,) = ignored("image_create", containerId="c", config={"\x1b[2J" + "x" * 9_000: 1})
    assert "\x1b" not in name
    assert len(name) < 300


def test_each_has_a_sentence_with_a_remedy() -> None:
    texts = describe_ignored(("config.apiKey", "config.mcpServers", "config.x"))
    assert "avm secret set" in texts[0]
    assert "MCP" in texts[1]
    assert texts[2] == "config.x is ignored: there is no such field"
