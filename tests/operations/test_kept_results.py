"""Pictures, files and long results of tools, through a fork, a rewind, a deletion and the collection of what nobody needs."""

from base64 import b64encode
from collections.abc import Iterable
from typing import Any

import pytest
from tests.operations.fixtures import Desk, open_desk

from agentvm import tool
from agentvm.drivers.base import Prompt, ToolResultsEntry, UserEntry
from agentvm.drivers.scripted import ScriptedDriver, ScriptStep, reply, tool_calls
from agentvm.model.limits import Limits
from agentvm.tools.base import CallResult, ResultFile, ResultImage

pytestmark = pytest.mark.anyio
PICTURE, REPORT = b"\x89PNG picture", b"%PDF report"
LONG = "\n".join(f"line {number}" for number in range(500))


@tool(effect="read", world="closed")
async def paint() -> CallResult:
    """Paint a picture and write a report."""
    parts = (
        ResultImage(data=PICTURE, media_type="image/png"),
        ResultFile(data=REPORT, media_type="application/pdf", name="r.pdf"),
    )
    return CallResult(type="content", parts=parts)


@tool(effect="read", world="closed")
async def list_all() -> str:
    """List very much."""
    return LONG


def script(prompt: Prompt) -> Iterable[ScriptStep]:
    said = prompt.conversation[-1]
    match said:
        case UserEntry(content="paint"):
            return tool_calls(("c1", "paint", {}))
        case UserEntry(content="list"):
            return tool_calls(("c2", "list_all", {}))
        case UserEntry(content="read"):
            return tool_calls(("c3", "read_file", {"path": ".results/c2", "offset": 400, "limit": 2}))
        case _:
            return reply("done")


async def said(desk: Desk, session_id: str, text: str) -> None:
    before = desk.types().count("turn_response")
    await desk.ask("message_send", sessionId=session_id, content=text)
    await desk.hear("turn_response", times=before + 1)


async def collect(desk: Desk) -> int:
    """Drops what nobody refers to: noted by the first, dropped by the second."""
    await desk.vm.store.collect(10**15, grace=0)
    return await desk.vm.store.collect(10**15 + 1, grace=0)


def seen(driver: ScriptedDriver) -> str:
    return str([entry for entry in driver.prompts[-1].conversation if isinstance(entry, ToolResultsEntry)])


async def test_pictures_and_files_of_results_live_as_long_as_a_message_that_has_them() -> None:
    driver, picture = ScriptedDriver(script), b64encode(PICTURE).decode()
    async with open_desk(driver, tools=[paint]) as desk:
        image = await desk.create_image(tools=["paint"])
        first: Any = (await desk.ask("message_send", imageId=image["imageId"], content="paint"))["sessionId"]
        await desk.hear("turn_response")
        assert picture in seen(driver)
        fork = (await desk.ask("session_fork", sessionId=first))["session"]["sessionId"]
        messages = (await desk.ask("session_messages", sessionId=first))["messages"]
        await desk.ask("session_rewind", sessionId=first, before=messages[0]["id"])
        await collect(desk)
        # Taken back here: not told any more. The fork has it still.
        await said(desk, first, "hello")
        assert picture not in seen(driver)
        await said(desk, fork, "hello")
        assert picture in seen(driver)
        assert "r.pdf" in seen(driver)
        attachments = desk.peer.workspace.store.container(image["containerId"]).attachments
        digests = [part["data"].removeprefix("attachment:") for part in messages[-2]["toolResult"]["output"]["value"]]
        assert [await attachments.get(digest) is not None for digest in digests] == [True, True]
        for session_id in (first, fork):
            await desk.ask("session_delete", sessionId=session_id)
        await collect(desk)
        # As long as the sessions can be restored, so can these.
        assert None not in [await attachments.get(digest) for digest in digests]
        await desk.vm.store.purge_sessions(10**15)
        await collect(desk)
        assert [await attachments.get(digest) for digest in digests] == [None, None]


async def test_a_long_result_is_read_on_from_its_file_also_in_a_fork() -> None:
    driver = ScriptedDriver(script)
    async with open_desk(driver, tools=[list_all], limits=Limits(tool_output=1_000)) as desk:
        image = await desk.create_image(tools=["list_all", "read_file"])
        first: Any = (await desk.ask("message_send", imageId=image["imageId"], content="list"))["sessionId"]
        await desk.hear("turn_response")
        assert "all of it is in the file /workspace/.results/c2" in seen(driver)
        assert "line 399" not in seen(driver)
        fork = (await desk.ask("session_fork", sessionId=first))["session"]["sessionId"]
        messages = (await desk.ask("session_messages", sessionId=first))["messages"]
        await desk.ask("session_rewind", sessionId=first, before=messages[0]["id"])
        await collect(desk)
        await said(desk, fork, "read")
        assert "line 399" in seen(driver)
        assert "line 400" in seen(driver)
        # With the message that it belonged to the file is gone.
        await said(desk, first, "read")
        assert "line 399" not in seen(driver)
        assert "no file" in seen(driver).lower()
