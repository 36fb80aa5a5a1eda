"""A server that is killed in the middle of a call: the turn goes on with what is left of its budget, and not with a new one."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.faults.process import open_server, read_log, read_messages

from agentvm import ImageConfig, create_agentx, remote_runtime
from agentvm.client import remote


async def run_killed(path: Path, said: str, deadly: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The messages and events of a turn whose server died in a call and was started again."""
    with anyio.fail_after(120):
        async with open_server(path, "tests.faults.budget_server", deadly) as server:
            async with create_agentx(remote_runtime(server.url)) as agentx:
                image = await agentx.images.create(ImageConfig(definition="coder"), container_id="c1")
                agent = await agentx.images.run(image.image_id)
                ended = anyio.Event()
                agentx.runtime.on("turn_response", lambda _: ended.set())
                await agent.receive(said)
                await server.died()
                await server.start()
                await ended.wait()
            session_id = str(image.session_id)
            return await read_messages(server.url, session_id), await read_log(server.url, session_id)


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "FIRST_DELAY_SECONDS", 0.02)
    monkeypatch.setattr(remote, "DELAY_SECONDS_MAX", 0.1)


async def test_calls_of_programs_before_and_after_a_kill_count_together(tmp_path: Path) -> None:
    messages, _ = await run_killed(tmp_path, "programs", "p1 1")
    outputs = [message["toolResult"]["output"]["value"] for message in messages if message.get("role") == "tool"]
    first, second = (json.loads(output)["stdout"].splitlines() for output in outputs)
    # Two programs and four calls of theirs are six.
    assert first == ["p0 0", "p0 1"]
    assert second == ["p1 0", "p1 1", "The call was not made: a turn makes 6 tool calls at most."]
    made = (tmp_path / "calls").read_text().splitlines()
    assert set(made) == {"p0 0", "p0 1", "p1 0", "p1 1"}
    assert made.count("p1 1") == 2


async def test_time_of_tools_before_and_after_a_kill_counts_together(tmp_path: Path) -> None:
    messages, events = await run_killed(tmp_path, "work", "w1")
    # 400 seconds before the kill and 400 after it are more than 600: the model is not asked a third time.
    assert (tmp_path / "calls").read_text().splitlines() == ["w0", "w1", "w1"]
    assert [message["toolResult"]["output"]["value"] for message in messages if message.get("role") == "tool"] == ["w0", "w1"]
    (end,) = [event["data"] for event in events if event["type"] == "turn_response"]
    assert end["outcome"] == "failed"
    (error,) = [event["data"] for event in events if event["type"] == "error_message"]
    assert error["errorCode"] == "turn_limit_reached"
    assert "tools have run for 800 seconds" in error["content"]
