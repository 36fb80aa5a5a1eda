"""Many tools: which of them a model is told, and how it finds the others."""

from pathlib import Path

import pytest
from tests.runtime.fixtures import open_world, run_tool, tool

from agentvm.drivers.base import Prompt, ToolResultsEntry, ToolSpec
from agentvm.drivers.scripted import ScriptedDriver, ScriptStep, in_turn, reply, tool_calls
from agentvm.runtime.tool_search import FOUND_MAX, ToolIndex, words_of
from agentvm.runtime.tools import LISTED_MAX, LISTED_MIN, Tool, ToolSet

pytestmark = pytest.mark.anyio


async def ok(arguments: dict[str, object]) -> object:
    return "fine"


def spec(name: str, description: str) -> ToolSpec:
    return ToolSpec(name=name, description=description, input_schema={"type": "object"})


def many(number: int) -> list[Tool]:
    plain = [tool(f"tool{place}", ok) for place in range(number - 1)]
    return [*plain, Tool(spec=spec("send_invoice", "Sends an invoice to a customer."), run=ok)]


def names(prompt: Prompt) -> list[str]:
    return [told.name for told in prompt.tools]


def test_words_are_those_of_any_way_to_write_a_name() -> None:
    assert words_of("getOpenOrders") == words_of("get_open_orders") == words_of("get-open orders") == ["get", "open", "orders"]
    assert words_of("发送 invoice2") == ["发", "送", "invoice", "2"]


def test_the_tool_that_fits_best_comes_first() -> None:
    index = ToolIndex(
        [
            spec("list_orders", "Lists the orders of a customer."),
            spec("delete_order", "Deletes one order."),
            spec("weather", "The weather of a city. Not about an order."),
            spec("发送邮件", "给客户发送一封邮件"),
        ]
    )
    assert index.search("delete an order")[0].name == "delete_order"
    assert index.search("orders of a customer")[0].name == "list_orders"
    assert [found.name for found in index.search("邮件")] == ["发送邮件"]
    assert index.search("quantum") == []
    assert len(ToolIndex([spec(f"t{number}", "same words") for number in range(50)]).search("same")) == FOUND_MAX


def test_a_model_is_told_of_all_tools_or_of_the_first_and_the_search() -> None:
    few = ToolSet(many(LISTED_MAX))
    assert few.specs_for(200_000) is few.specs
    # A small window is not filled with tools, but the model has some in any case.
    assert [told.name for told in few.specs_for(100)] == [f"tool{place}" for place in range(LISTED_MIN)] + ["find_tools"]
    large = ToolSet(many(LISTED_MAX + 5))
    told = large.specs_for(200_000)
    assert len(told) == LISTED_MAX + 1
    assert told is large.specs_for(200_000)
    # Found ones are appended.
    assert [*told, large.specs[-1]] == list(large.specs_for(200_000, ("send_invoice", "nobody")))
    assert ToolSet(many(LISTED_MIN)).specs_for(1) == ToolSet(many(LISTED_MIN)).specs


async def test_a_search_is_a_result_like_any_other() -> None:
    outcome = await run_tool(ToolSet(many(50)), "find_tools", 10_000, query="invoice for a customer")
    assert outcome.result == {"tools": [{"name": "send_invoice", "description": "Sends an invoice to a customer."}]}


def script(prompt: Prompt) -> list[ScriptStep]:
    last = prompt.conversation[-1]
    if not isinstance(last, ToolResultsEntry):
        return tool_calls(("c1", "find_tools", {"query": "invoice"}))
    return tool_calls(("c2", "send_invoice", {})) if last.results[0].name == "find_tools" else reply("sent")


async def test_found_tools_are_appended_and_stay_for_the_session_over_a_restart(tmp_path: Path) -> None:
    driver = ScriptedDriver(script)
    async with open_world(driver, tools=many(50), path=tmp_path / "db") as world:
        await world.say(world.start(), "send it")
        heard = await world.hear("turn_response")
        assert heard[-1]["data"]["outcome"] == "completed"
        assert [event["data"]["toolName"] for event in heard if event["type"] == "tool_completed"] == [
            "find_tools",
            "send_invoice",
        ]
    before, *after = map(names, driver.prompts)
    assert "send_invoice" not in before
    assert after == [[*before, "send_invoice"]] * 2
    again = ScriptedDriver(in_turn(reply("hello")))
    async with open_world(again, tools=many(50), path=tmp_path / "db") as world:
        await world.say(world.start(), "hi")
        await world.hear("turn_response")
    assert names(again.prompts[0]) == [*before, "send_invoice"]
