"""A server that is killed in the middle of a program's calls: the next one runs the program to its end."""

import json
from pathlib import Path

import anyio
import pytest
from tests.faults.process import open_server, read_messages

from agentvm import ImageConfig, create_agentx, remote_runtime
from agentvm.client import remote
from agentvm.runtime.calls import LOST

NAMES = ("note", "look", "look", "note")


@pytest.mark.parametrize("deadly", [1, 2, 3, 4])
async def test_a_killed_server_makes_no_call_twice_that_must_not_be(
    tmp_path: Path, deadly: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "FIRST_DELAY_SECONDS", 0.02)
    monkeypatch.setattr(remote, "DELAY_SECONDS_MAX", 0.1)
    with anyio.fail_after(200):
        async with open_server(tmp_path, "tests.faults.program_server", str(deadly)) as server:
            async with create_agentx(remote_runtime(server.url)) as agentx:
                image = await agentx.images.create(ImageConfig(definition="coder"), container_id="c1")
                agent = await agentx.images.run(image.image_id)
                ended = anyio.Event()
                agentx.runtime.on("turn_response", lambda _: ended.set())
                await agent.receive("go")
                await server.died()
                await server.start()
                await ended.wait()
            messages = await read_messages(server.url, str(image.session_id))
    (result,) = [message["toolResult"]["output"]["value"] for message in messages if message.get("role") == "tool"]
    again = NAMES[deadly - 1] == "look"
    lines = [f"{name} {number}" for number, name in enumerate(NAMES, 1)]
    heard = [LOST if number == deadly and not again else line for number, line in enumerate(lines, 1)]
    assert json.loads(result)["stdout"].splitlines() == heard
    made = (tmp_path / "calls").read_text().splitlines()
    # A result that was not stored yet is asked for again, if that does no harm.
    assert set(made) == set(lines)
    assert [line for line in made if line.startswith("note")] == ["note 1", "note 4"]
