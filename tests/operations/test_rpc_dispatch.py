import anyio
import pytest
from tests.support.rpc_client import open_rpc_client

from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import Pause, ScriptedDriver, ScriptStep, reply
from agentvm.errors import AgentBusy, AgentVMError, ImageNotFound, InvalidInput, PermissionDenied, StoreFailed
from agentvm.operations import rpc_dispatch
from agentvm.operations.rpc_dispatch import problem_of


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidInput("x"), -32602),
        (ImageNotFound("img_1"), 404),
        (PermissionDenied("x"), 403),
        (AgentBusy("x"), 429),
        (StoreFailed("x"), -32000),
    ],
)
def test_errors_have_integer_codes_and_ours_beside_them(error: AgentVMError, code: int) -> None:
    problem = problem_of(error)
    assert (problem.code, problem.message, problem.data) == (code, str(error), {"code": error.code})


async def test_a_send_is_answered_after_the_last_event_of_its_turn() -> None:
    async with open_rpc_client(ScriptedDriver(lambda _: reply("Hello"))) as (_, client):
        image_id = (await client.ask("image.create"))["record"]["imageId"]
        result = await client.ask("message.send", imageId=image_id, content="Hi")
        assert (result["imageId"], result["status"]) == (image_id, "completed")
        turn = [kind for kind in client.types if kind not in ("image_created", "container_created", "agent_created")]
        assert turn[0] == "user_message"
        assert turn[-1] == "turn_response"
        assert turn.count("assistant_message") == 1
        assert turn.index("message_delta") < turn.index("message_stop")
        ids = {(event["context"]["instanceId"], event["context"]["imageId"]) for event in client.events[-8:]}
        assert ids == {(result["instanceId"], image_id)}


async def test_a_long_turn_is_answered_as_running_before_clients_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpc_dispatch, "SEND_SECONDS", 0.0)
    pause = Pause(anyio.Event())
    async with open_rpc_client(ScriptedDriver(lambda _: [*reply("Hello"), pause])) as (_, client):
        image_id = (await client.ask("image.create"))["record"]["imageId"]
        result = await client.ask("message.send", imageId=image_id, content="Hi")
        assert result["status"] == "running"
        await client.ask("instance.interrupt", imageId=image_id)
        await client.until("turn_response")
        ended = next(event for event in client.events if event["type"] == "turn_response")
        assert ended["data"]["turnId"] == result["turnId"]
        assert "interrupted" in client.types


async def test_every_refused_send_is_also_told_by_an_event_of_its_image() -> None:
    async with open_rpc_client() as (_, client):
        image_id = (await client.ask("image.create"))["record"]["imageId"]
        assert (await client.refused("message.send", imageId="img_none", content="x"))[0] == 404
        assert (await client.refused("message.send", imageId=image_id))[0] == -32602
        assert (await client.refused("message.send", content="x"))[0] == -32602
        assert (await client.refused("message.send", instanceId="inst_gone", content="x"))[0] == -32602
        assert (await client.refused("message.send", agentId="agent_old", content="x"))[0] == -32602
        errors = [event for event in client.events if event["type"] == "error"]
        # Clients would show an event without an instance in every conversation.
        assert [event["context"].get("imageId") for event in errors] == ["img_none", image_id, None, None]
        named = ["inst_none", image_id.replace("img_", "inst_"), "inst_gone", "inst_old"]
        assert [event["context"].get("instanceId") for event in errors] == named
        assert (await client.ask("image.messages", imageId=image_id))["messages"] == []


async def test_a_second_send_waits_for_the_first_and_both_are_answered() -> None:
    async with open_rpc_client(ScriptedDriver(lambda _: reply("Hello"))) as (vm, client):
        image_id = (await client.ask("image.create"))["record"]["imageId"]
        first = await client.send("message.send", imageId=image_id, content="one")
        second = await client.send("message.send", imageId=image_id, content="two")
        assert (await client.answer(first))["result"]["status"] == "completed"
        assert (await client.answer(second))["result"]["status"] == "completed"
        assert len(vm.runtime.roster) == 1


async def test_unknown_methods_and_wrong_params_are_named() -> None:
    async with open_rpc_client() as (_, client):
        assert await client.refused("nope.nope") == (-32601, "Method not found: nope.nope")
        code, text = await client.refused("image.get")
        assert (code, "imageId" in text) == (-32602, True)
        code, text = await client.refused("image.create", name=5)
        assert (code, "name" in text) == (-32602, True)


async def test_a_message_may_choose_how_deep_its_turn_thinks_and_nothing_is_ignored() -> None:
    asked: list[Prompt] = []

    def script(prompt: Prompt) -> list[ScriptStep]:
        asked.append(prompt)
        return reply("Hello")

    async with open_rpc_client(ScriptedDriver(script)) as (_, client):
        image_id = (await client.ask("image.create"))["record"]["imageId"]
        await client.ask("message.send", imageId=image_id, content="Hi", options={"thinking": "medium"})
        assert asked[0].thinking == 10_000
        budget = {"anthropic": {"thinking": {"type": "enabled", "budgetTokens": 2048}}}
        await client.ask("message.send", imageId=image_id, content="Hi", options={"providerOptions": budget})
        assert asked[1].thinking == 2_048
        refused = {"providerOptions": {"anthropic": {"effort": "high"}}}
        assert (await client.refused("message.send", imageId=image_id, content="Hi", options=refused))[0] == -32602
        assert (await client.refused("message.send", imageId=image_id, content="Hi", options={"thinking": "much"}))[0] == -32602


async def test_an_agent_that_thought_can_be_told_not_to() -> None:
    asked: list[Prompt] = []

    def script(prompt: Prompt) -> list[ScriptStep]:
        asked.append(prompt)
        return reply("Hello")

    async with open_rpc_client(ScriptedDriver(script)) as (_, client):
        image_id = (await client.ask("image.create", thinking="high"))["record"]["imageId"]
        await client.ask("message.send", imageId=image_id, content="Hi")
        await client.ask("image.update", imageId=image_id, updates={"thinking": "disabled"})
        await client.ask("message.send", imageId=image_id, content="Hi")
    assert [prompt.thinking for prompt in asked] == [32_000, None]
