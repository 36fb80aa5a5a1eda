from tests.runtime.fixtures import open_world
from tests.runtime.test_memories import converse, told

from agentvm.drivers.scripted import ScriptedDriver, in_turn, reply


async def test_without_memories_a_prompt_has_the_conversation_and_nothing_else() -> None:
    driver = ScriptedDriver(in_turn(reply("hello")))
    async with open_world(driver) as world:
        await converse(world, "hi")
    (prompt,) = driver.prompts
    assert told(prompt) == ""
    assert len(prompt.conversation) == 1
