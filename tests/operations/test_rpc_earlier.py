import pytest
from tests.support.rpc_client import RpcClient, open_rpc_client

from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import ScriptedDriver, ScriptStep, reply
from agentvm.operations.rpc_earlier import is_earlier, with_earlier_names
from agentvm.protocol.codec import decode_inbound
from agentvm.protocol.rpc import RpcCall, decode_rpc


async def subscribe(client: RpcClient, topic: str = "global") -> None:
    await client.socket.send({"jsonrpc": "2.0", "method": "subscribe", "params": {"topic": topic}})


def call(text: str) -> RpcCall:
    decoded = decode_rpc(decode_inbound(text))
    assert isinstance(decoded, RpcCall)
    return decoded


@pytest.mark.parametrize(
    ("method", "params", "earlier"),
    [
        ("subscribe", "{}", True),
        ("agent.list", "{}", True),
        ("container.get", "{}", True),
        ("prototype.list", "{}", True),
        ("message.send", '{"agentId": "agent_1"}', True),
        ("image.create", '{"embody": {}}', True),
        ("image.create", '{"name": "agentId"}', False),
        ("instance.destroyAll", '{"containerId": "default"}', False),
    ],
)
def test_a_client_is_known_by_its_words(method: str, params: str, earlier: bool) -> None:
    assert is_earlier(call(f'{{"jsonrpc": "2.0", "id": 1, "method": "{method}", "params": {params}}}')) is earlier


def test_only_what_names_an_instance_gets_another_name() -> None:
    assert with_earlier_names({"containerId": "c"}) == {"containerId": "c"}
    assert with_earlier_names({"agents": [{"instanceId": "inst_1"}]}) == {
        "agents": [{"instanceId": "inst_1", "agentId": "agent_1"}]
    }


async def test_a_client_of_2_6_runs_an_agent_by_its_own_words() -> None:
    async with open_rpc_client() as (_, client):
        assert await client.ask("container.create", containerId="mine") == {"containerId": "default"}
        assert await client.ask("container.get", containerId="mine") == {"containerId": "default", "exists": True}
        assert await client.ask("container.list") == {"containerIds": ["default"]}
        created = await client.ask("image.create", containerId="mine", name="N", embody={"systemPrompt": "be brief"})
        record = created["record"]
        assert (record["embody"], created["__subscriptions"]) == ({"systemPrompt": "be brief"}, [record["sessionId"]])
        await subscribe(client, record["sessionId"])
        run = await client.ask("image.run", imageId=record["imageId"])
        agent_id = run["agentId"]
        assert agent_id.startswith("agent_")
        assert (await client.ask("agent.get", agentId=agent_id))["agent"]["agentId"] == agent_id
        assert [item["agentId"] for item in (await client.ask("agent.list"))["agents"]] == [agent_id]
        sent = await client.ask("message.send", agentId=agent_id, content="Hi")
        assert (sent["agentId"], sent["status"]) == (agent_id, "completed")
        assert (await client.ask("agent.interrupt", agentId=agent_id))["agentId"] == agent_id
        turn = [event for event in client.events if event["type"] in ("text_delta", "assistant_message", "turn_response")]
        assert len(turn) >= 3
        assert {event["context"]["agentId"] for event in turn} == {agent_id}
        assert (await client.ask("agent.destroy", agentId=agent_id))["success"]


async def test_what_an_agent_embodies_is_what_it_acts_by() -> None:
    asked: list[Prompt] = []

    def script(prompt: Prompt) -> list[ScriptStep]:
        asked.append(prompt)
        return reply("Hello")

    async with open_rpc_client(ScriptedDriver(script)) as (_, client):
        record = (await client.ask("image.create", contextId="c", embody={"systemPrompt": "one"}))["record"]
        assert record["contextId"] == "c"
        await client.ask("image.update", imageId=record["imageId"], updates={"embody": {"systemPrompt": "two"}})
        await client.ask("message.send", imageId=record["imageId"], content="Hi")
        assert "two" in (asked[0].system or "")


async def test_a_client_of_2_9_is_told_no_earlier_names() -> None:
    async with open_rpc_client() as (_, client):
        image_id = (await client.ask("image.create"))["record"]["imageId"]
        assert "agentId" not in await client.ask("message.send", imageId=image_id, content="Hi")
        assert not any("agentId" in event["context"] for event in client.events)


async def test_prototypes_are_definitions_and_are_changed_elsewhere() -> None:
    async with open_rpc_client() as (_, client):
        (first, *_) = (await client.ask("prototype.list"))["records"]
        assert (await client.ask("prototype.get", prototypeId=first["prototypeId"]))["record"] == first
        assert (await client.ask("prototype.get", prototypeId="proto_none"))["record"] is None
        assert (await client.refused("prototype.create", name="x"))[0] == -32601
