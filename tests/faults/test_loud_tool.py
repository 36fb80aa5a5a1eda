"""F11: tools that hang, crash or do not stop talking. Each is a result the model is told of; nobody else notices."""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest
from tests.faults.invariants import check_events, check_messages, check_texts
from tests.faults.process import read_log, read_messages
from tests.runtime.fixtures import tool
from tests.support.serving import provide_tools, serving
from tests.support.wire import client

from agentvm.drivers.base import Prompt, UserEntry
from agentvm.drivers.scripted import ScriptStep, last_user_text, reply, tool_calls
from agentvm.model.limits import Limits
from agentvm.runtime.tools import Run

LONG = 1024 * 1024
LOUD = 100 * LONG
DEADLINE = 0.5
KEPT = Limits().tool_output


async def hang(arguments: dict[str, object]) -> object:
    await anyio.sleep_forever()
    return None


async def crash(arguments: dict[str, object]) -> object:
    raise RuntimeError("a bug")


async def leave(arguments: dict[str, object]) -> object:
    sys.exit(1)


async def give_up(arguments: dict[str, object]) -> object:
    raise asyncio.CancelledError


async def shout(arguments: dict[str, object]) -> object:
    return "x" * LOUD


async def talk(arguments: dict[str, object]) -> object:
    return "x" * LONG


async def list_much(arguments: dict[str, object]) -> object:
    return ["x" * 1_000] * (LONG // 1_000)


TOOLS: Mapping[str, tuple[Run, str]] = {
    "hang": (hang, "did not finish within 0.5 seconds"),
    "crash": (crash, "internal error"),
    "leave": (leave, "tried to end its process"),
    "give_up": (give_up, "cancelled from within"),
    "shout": (shout, "answered with more than 16 MiB"),
    "talk": (talk, f"[cut off: the result has {LONG} characters; all of it is in the file "),
    "list_much": (list_much, "[cut off: the result has"),
}
"""The tools, and what of it the model is told."""


def script(prompt: Prompt) -> list[ScriptStep]:
    """Calls the tool that the user named, twice at once."""
    word = last_user_text(prompt)
    if word in TOOLS and isinstance(prompt.conversation[-1], UserEntry):
        return tool_calls(("call_1", word, {}), ("call_2", word, {}), text="Let me see.")
    return reply("All ", "is ", "well.")


def size_of(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.iterdir())


async def test_f11_tools_that_hang_crash_or_shout_end_in_time_are_cut_short_and_disturb_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provide_tools(monkeypatch, *(tool(name, run, DEADLINE) for name, (run, _) in TOOLS.items()))
    async with serving(script, data_dir=tmp_path) as server, client(server.url) as alice, client(server.url) as bob:
        quiet = await bob.image("bob")
        for name, (_, told) in TOOLS.items():
            record = await alice.image(name)
            sent = await alice.request("message_send_request", imageId=record["imageId"], content=name)
            # While Alice's tools misbehave, Bob is answered.
            assert (await bob.say(quiet["imageId"], "hello"))["data"]["outcome"] == "completed"
            end = await alice.end_of(sent["turnId"])
            assert end["data"]["outcome"] == "completed"
            events = await read_log(server.url, record["sessionId"])
            messages = await read_messages(server.url, record["sessionId"])
            check_events(events)
            check_texts(events)
            check_messages(events, messages)
            results = [message["toolResult"]["output"]["value"] for message in messages if message["role"] == "tool"]
            assert len(results) == 2
            for result in results:
                assert told in result
                assert len(result) <= KEPT + 100
    # What was cut off is in files of the sessions; nothing of what was refused is on the disk.
    assert size_of(tmp_path) < 10 * 1024 * 1024
