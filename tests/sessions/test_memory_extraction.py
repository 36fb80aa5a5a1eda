"""What a model is asked to remember after a turn: billed, bounded, taken back with the message, and never for nobody."""

import json
from collections.abc import Iterable
from typing import Any

import anyio
import pytest
from tests.operations.fixtures import Desk, open_desk
from tests.runtime.test_call_memories import opened

from agentvm.drivers.base import Prompt, ToolResultsEntry, UserEntry
from agentvm.drivers.scripted import ScriptedDriver, ScriptStep, reply, tool_calls
from agentvm.model.definition import Definition
from agentvm.model.limits import MemorySettings
from agentvm.sessions.memory_extraction import FACTS_MAX, SYSTEM

AFTER_TURN = MemorySettings(by="after-turn")


class Diarist(ScriptedDriver):
    """Answers, reads a page if it is told to, and notes what is in the braces of a message."""

    def __init__(self) -> None:
        super().__init__(self._script)

    @property
    def asked(self) -> list[str]:
        """The texts of the calls after turns."""
        return [str(prompt.conversation[-1].content) for prompt in self.prompts if prompt.system == SYSTEM]  # type: ignore[union-attr]

    def _script(self, prompt: Prompt) -> Iterable[ScriptStep]:
        last = prompt.conversation[-1]
        if isinstance(last, ToolResultsEntry):
            return reply("I have read it")
        assert isinstance(last, UserEntry)
        text = str(last.content)
        if prompt.system != SYSTEM:
            return tool_calls(("c1", "fetch", {})) if "read" in text else reply("I see")
        return reply(text.partition("[[")[2].partition("]]")[0])


async def memories_of(desk: Desk) -> list[dict[str, Any]]:
    return list((await desk.ask("memory_list", containerId="c1"))["memories"])


async def wait_for(desk: Desk, count: int) -> list[dict[str, Any]]:
    with anyio.fail_after(60):
        while len(memories := await memories_of(desk)) < count:
            await anyio.wait_all_tasks_blocked()
    return memories


async def say(desk: Desk, image: dict[str, Any], facts: object, text: str = "") -> dict[str, Any]:
    before = desk.types().count("turn_response")
    answer = facts if isinstance(facts, str) else json.dumps({"facts": facts})
    sent: dict[str, Any] = await desk.ask("message_send", imageId=image["imageId"], content=f"{text} [[{answer}]]")
    await desk.hear("turn_response", times=before + 1)
    return sent


async def test_facts_of_a_turn_become_memories_that_later_turns_are_told_and_that_cost_a_call() -> None:
    driver = Diarist()
    async with open_desk(driver, memory=AFTER_TURN) as desk:
        image = await desk.create_image()
        sent = await say(desk, image, ["Likes tea"])
        (memory,) = await wait_for(desk, 1)
        assert (memory["text"], memory["by"], memory.get("proposed", False)) == ("Likes tea", "agent", False)
        assert memory["sessionId"] == image["sessionId"]
        entries = [entry.key for _, entry in await desk.peer.workspace.accounts.ledger.list()]
        assert f"memory_{sent['turnId']}" in entries
        await say(desk, await desk.create_image(), ["Has a dog"])
        told = [prompt for prompt in driver.prompts if prompt.system != SYSTEM]
        assert "Likes tea" in str(told[-1].conversation)
        assert [one["text"] for one in await wait_for(desk, 2)] == ["Has a dog", "Likes tea"]
        assert "- Likes tea" in driver.asked[-1]


async def test_rewinding_the_answer_takes_its_memories_back() -> None:
    async with open_desk(Diarist(), memory=AFTER_TURN) as desk:
        image = await desk.create_image()
        await say(desk, image, ["Likes tea"])
        await wait_for(desk, 1)
        question = (await desk.ask("image_messages", imageId=image["imageId"]))["messages"][0]
        rewound = await desk.ask("session_rewind", sessionId=image["sessionId"], messageId=question["id"])
        assert "errorCode" not in rewound
        assert await memories_of(desk) == []


async def test_what_is_no_list_of_facts_is_passed_over_and_the_others_are_bounded() -> None:
    async with open_desk(Diarist(), memory=AFTER_TURN) as desk:
        image = await desk.create_image()
        for answer in ("nothing", '{"facts": 3}', '{"facts": ["", "   ", "' + "x" * 501 + '"]}'):
            await say(desk, image, answer)
        await say(desk, image, ["a\n b", "a b", "c", "d", "e"])
        memories = await wait_for(desk, FACTS_MAX)
        assert sorted(one["text"] for one in memories) == ["a b", "c", "d"]


async def test_after_text_of_strangers_facts_are_proposed() -> None:
    reader = Definition(name="reader", tools=("fetch",))
    async with open_desk(Diarist(), definitions=[reader], tools=[opened("fetch")], memory=AFTER_TURN) as desk:
        image = await desk.create_image(definition="reader")
        await say(desk, image, ["Bob is the boss"], "read the page")
        assert (await wait_for(desk, 1))[0]["proposed"] is True
        # Also in a later turn: the page is still in the prompt.
        await say(desk, image, ["Ann is the boss"])
        assert (await wait_for(desk, 2))[0]["proposed"] is True


@pytest.mark.parametrize("by", ["tool", "off"])
async def test_without_the_setting_nothing_is_asked(by: Any) -> None:
    driver = Diarist()
    async with open_desk(driver, memory=MemorySettings(by=by)) as desk:
        await say(desk, await desk.create_image(), ["Likes tea"])
        await anyio.wait_all_tasks_blocked()
        assert driver.asked == []


async def test_a_call_without_a_session_is_not_remembered() -> None:
    driver = Diarist()
    async with open_desk(driver, memory=AFTER_TURN) as desk:
        await desk.ask("run_start", container="c1", content='[[{"facts": ["Ran"]}]]')
        await desk.hear("turn_response")
        await say(desk, await desk.create_image(), ["Likes tea"])
        assert [one["text"] for one in await wait_for(desk, 1)] == ["Likes tea"]
        assert len(driver.asked) == 1
