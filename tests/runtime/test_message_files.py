import base64

import pytest
from tests.operations.fixtures import open_desk

from agentvm.drivers.base import ToolResultsEntry
from agentvm.drivers.scripted import ScriptedDriver, in_turn, reply, tool_calls
from agentvm.model.message import FilePart, ImagePart
from agentvm.runtime.message_files import NAME_MAX_BYTES, file_name

CODE = """
import os
print(sorted(os.listdir('/in')), open('/in/notes.txt').read())
try:
    open('/in/notes.txt', 'a')
except OSError:
    print('refused')
try:
    open('/in/more', 'w')
except OSError:
    print('refused')
"""


async def test_the_files_of_the_message_are_in_the_sandbox_and_cannot_be_changed() -> None:
    driver = ScriptedDriver(in_turn(tool_calls(("c1", "run_python", {"code": CODE})), reply("done")))
    body = base64.b64encode(b"hello").decode()
    parts = [
        {"type": "text", "text": "read it"},
        {"type": "file", "data": body, "mediaType": "text/plain", "filename": "../notes.txt"},
        {"type": "file", "data": body, "mediaType": "text/plain", "filename": "notes.txt"},
        {"type": "file", "data": "https://example.org/x", "mediaType": "text/plain", "filename": "far.txt"},
        {"type": "file", "data": "é", "mediaType": "text/plain", "filename": "no-base64.txt"},
    ]
    async with open_desk(driver) as desk:
        image = await desk.create_image(tools=["run_python"])
        await desk.ask("message_send", imageId=image["imageId"], content=parts)
        await desk.hear("turn_response")
        told = driver.prompts[-1].conversation[-1]
        assert isinstance(told, ToolResultsEntry)
        printed = told.results[0].output.value["stdout"]  # type: ignore[index]
        assert printed == "['notes-2.txt', 'notes.txt'] hello\nrefused\nrefused\n"
        # What is read only is no change of the session's files.
        assert (await desk.ask("file_list", sessionId=image["sessionId"]))["files"] == []


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("a.txt", "a.txt"),
        ("../../etc/passwd", "passwd"),
        ("c:\\x\\b.csv", "b.csv"),
        (".\u202ebashrc", "bashrc"),
        ("\n", "file.txt"),
        (None, "file.txt"),
        ("x" * 500 + ".txt", "x" * (NAME_MAX_BYTES - 4) + ".txt"),
    ],
)
def test_names_are_safe(given: str | None, name: str) -> None:
    assert file_name(FilePart(data="", media_type="text/plain", filename=given)) == name


def test_a_picture_without_a_name_is_named_by_its_type() -> None:
    assert file_name(ImagePart(data="", media_type="image/png")) == "file.png"
