from agentvm.drivers.base import Prompt, UserEntry
from agentvm.drivers.scripted import PROMPTS_MAX, ScriptedDriver, in_turn, last_user_text, reply, tool_calls
from agentvm.errors import ProviderOverloaded
from agentvm.testing.conformance import driver as conformance


async def test_the_echo_conforms() -> None:
    driver = ScriptedDriver()
    await conformance.check_text(driver)
    await conformance.check_parallel_calls(driver)


async def test_scripted_tool_calls_conform() -> None:
    driver = ScriptedDriver(in_turn(tool_calls(("a", "weather", {"x": 1}), ("b", "clock", {}), text="hm")))
    await conformance.check_tool_calls(driver, conformance.hello(driver), ["weather", "clock"])


async def test_a_scripted_failure_conforms() -> None:
    driver = ScriptedDriver(in_turn([*reply("a")[:3], ProviderOverloaded("busy")]))
    await conformance.check_failure(driver, conformance.hello(driver), ProviderOverloaded)


async def test_an_abandoned_call_is_counted() -> None:
    driver = ScriptedDriver()

    async def closed() -> None:
        assert driver.closed_early == 1

    await conformance.check_close_closes(driver, conformance.hello(driver), closed)


async def test_only_the_last_prompts_are_remembered() -> None:
    driver = ScriptedDriver(prompts_max=2)
    for text in ("one", "two", "three"):
        async for _ in driver.run(Prompt(model="m", conversation=(UserEntry(content=text),), max_tokens=10)):
            pass
    assert [last_user_text(prompt) for prompt in driver.prompts] == ["two", "three"]
    many = ScriptedDriver()
    for number in range(PROMPTS_MAX + 5):
        async for _ in many.run(Prompt(model="m", conversation=(UserEntry(content=str(number)),), max_tokens=10)):
            pass
    assert len(many.prompts) == PROMPTS_MAX
