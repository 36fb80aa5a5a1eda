import pytest
from tests.operations.fixtures import open_desk

from agentvm.errors.resource import ResourceNotFound
from agentvm.tools.stored_sandbox import find_sandbox


async def test_a_sandbox_comes_with_the_bytes_of_its_files() -> None:
    async with open_desk() as desk:
        base = {"runtime": "python", "files": {"a.bin": {"data": "AP8="}}}
        await desk.publish("sandboxes", "base", base)
        await desk.publish("sandboxes", "mine", {"extends": "resource://sandboxes/base", "files": {"b.txt": "b"}})
        sandbox = await find_sandbox(desk.vm.resources, desk.peer.tenant_id, "resource://sandboxes/mine")
        assert sandbox.files == {"a.bin": b"\x00\xff", "b.txt": b"b"}
        await desk.publish("prompts", "p", {"text": "x"})
        for uri in ("resource://prompts/p", "resource://sandboxes/none"):
            with pytest.raises(ResourceNotFound):
                await find_sandbox(desk.vm.resources, desk.peer.tenant_id, uri)
