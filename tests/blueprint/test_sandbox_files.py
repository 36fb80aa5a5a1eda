from typing import Any

from tests.operations.fixtures import open_desk

from agentvm.model.ids import ContainerId

LOGO = {"data": "AP8="}
BOX = {"runtime": "python", "files": {"logo.bin": LOGO, "a.txt": "text"}}
TOOL: dict[str, Any] = {
    "description": "Reads",
    "inputSchema": {"type": "object"},
    "runtime": "python",
    "entry": "def run():\n    return open('logo.bin', 'rb').read().hex()",
    "sandbox": "resource://sandboxes/box",
}


async def test_an_image_holds_the_binary_files_of_its_sandboxes() -> None:
    async with open_desk() as desk:
        await desk.publish("sandboxes", "base", BOX)
        await desk.publish("sandboxes", "box", {"extends": "resource://sandboxes/base", "env": {"A": "1"}})
        await desk.publish("tools", "reader", TOOL)
        face = {
            "description": "Face",
            "inputSchema": {"type": "object"},
            "runtime": "python",
            "entry": "resource://tools/reader",
        }
        await desk.publish("tools", "face", face)
        definition = {"name": "one", "tools": ["resource://tools/reader", "resource://tools/face"]}
        config = {"sandbox": "resource://sandboxes/box"}
        made = await desk.ask("image_build", containerId="c1", definition=definition, config=config)
        image = await desk.peer.store.container(ContainerId("c1")).get_image(made["record"]["imageId"])
        assert image is not None
        rendered = image.definition.rendered
        assert rendered is not None
        assert rendered.sandbox is not None
        reader, other = (dict(spec) for spec in rendered.tools)
        resolved: Any = reader["resolved"]
        behind: Any = other["resolved"]
        for sandbox in (rendered.sandbox, resolved["sandbox"], behind["entry"]["resolved"]["sandbox"]):
            assert sandbox["files"] == {"logo.bin": LOGO, "a.txt": "text"}


async def test_an_image_without_sandboxes_stays_as_it_is() -> None:
    async with open_desk() as desk:
        made = await desk.ask("image_build", containerId="c1", definition={"name": "one", "systemPrompt": "Hi."})
        image = await desk.peer.store.container(ContainerId("c1")).get_image(made["record"]["imageId"])
        assert image is not None
        assert image.definition.rendered is None
