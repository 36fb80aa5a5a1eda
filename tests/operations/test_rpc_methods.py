from typing import Any

import pytest
from tests.support.rpc_client import RpcClient, open_rpc_client

from agentvm.drivers.scripted import ScriptedDriver, in_turn, reply, tool_calls
from agentvm.operations.rpc_methods import METHODS
from agentvm.operations.rpc_params import CLIENT_DATA_MAX_BYTES

THE_24 = {
    *(f"image.{verb}" for verb in ("create", "get", "list", "update", "delete", "run", "stop", "messages")),
    *(f"instance.{verb}" for verb in ("get", "list", "destroy", "destroyAll", "interrupt")),
    *(f"llm.{verb}" for verb in ("create", "get", "list", "update", "delete", "default")),
    *(f"os.{verb}" for verb in ("read", "list", "write")),
    "runtime.rewind",
}
"""With `message.send`, which is answered later than the others."""
ANSWERS = in_turn(tool_calls(("t1", "calculator", {"expression": "1+1"})), reply("Two"))


async def created(client: RpcClient, **params: object) -> Any:
    return (await client.ask("image.create", **params))["record"]


def test_every_method_of_2x_is_there() -> None:
    assert len(THE_24) == 23
    assert set(METHODS) >= THE_24


async def test_an_image_keeps_what_its_client_has_put_in_it() -> None:
    async with open_rpc_client() as (_, client):
        own: dict[str, object] = {"customData": {"fav": True}, "thinking": "low", "roleId": "r"}
        record = await created(client, name="Demo", systemPrompt="be brief", **own)
        assert record["name"] == "Demo"
        assert {name: record[name] for name in own} == own
        assert (await client.ask("image.get", imageId=record["imageId"]))["record"] == record
        updates = {"name": "N", "customData": {"x": 1}}
        updated = (await client.ask("image.update", imageId=record["imageId"], updates=updates))["record"]
        assert (updated["name"], updated["customData"], updated["systemPrompt"]) == ("N", {"x": 1}, "be brief")
        (listed,) = (await client.ask("image.list", containerId="of-others"))["records"]
        assert listed["customData"] == {"x": 1}
        assert (await client.ask("image.get", imageId="img_none"))["record"] is None


async def test_an_update_changes_no_id_and_needs_its_updates() -> None:
    async with open_rpc_client() as (_, client):
        record = await created(client)
        stolen = {"sessionId": "sess_of_others", "containerId": "c", "osId": "os", "createdAt": 1, "name": "N"}
        updated = (await client.ask("image.update", imageId=record["imageId"], updates=stolen))["record"]
        assert updated == {**record, "name": "N", "updatedAt": updated["updatedAt"]}
        assert (await client.refused("image.update", imageId=record["imageId"]))[0] == -32602
        assert (await client.refused("image.update", imageId="img_none", updates={"name": "x"}))[0] == 404
        too_much = {"customData": {"x": "y" * CLIENT_DATA_MAX_BYTES}}
        assert (await client.refused("image.update", imageId=record["imageId"], updates=too_much))[0] == -32602


async def test_an_instance_is_run_reused_listed_and_destroyed() -> None:
    async with open_rpc_client() as (_, client):
        record = await created(client)
        run = await client.ask("image.run", imageId=record["imageId"])
        assert (run["sessionId"], run["containerId"], run["reused"]) == (record["sessionId"], "default", False)
        assert run["instanceId"].startswith("inst_")
        assert (await client.ask("image.run", imageId=run["instanceId"]))["reused"]
        (listed,) = (await client.ask("instance.list"))["agents"]
        assert listed == (await client.ask("instance.get", instanceId=run["instanceId"]))["agent"]
        assert (listed["lifecycle"], listed["imageId"]) == ("running", record["imageId"])
        assert (await client.ask("instance.destroy", instanceId=run["instanceId"]))["success"]
        assert not (await client.ask("instance.destroy", instanceId=run["instanceId"]))["success"]
        assert (await client.ask("instance.get", instanceId=run["instanceId"])) == {"agent": None, "exists": False}
        assert "agent_destroyed" in client.types
        assert (await client.refused("instance.get"))[0] == -32602


async def test_a_stopped_image_answers_again_and_a_cold_one_is_not_started_to_be_interrupted() -> None:
    async with open_rpc_client() as (vm, client):
        image_id = (await created(client))["imageId"]
        assert await client.ask("instance.interrupt", imageId=image_id) == {"instanceId": None}
        assert len(vm.runtime.roster) == 0
        await client.ask("image.run", imageId=image_id)
        await client.ask("image.stop", imageId=image_id)
        assert (await client.ask("message.send", imageId=image_id, content="Hi"))["status"] == "completed"
        await client.ask("instance.destroyAll", containerId="default")
        assert (await client.ask("instance.list"))["agents"] == []
        assert (await client.ask("image.delete", imageId=image_id)) == {"imageId": image_id}
        assert (await client.refused("image.messages", imageId=image_id))[0] == 404


async def test_a_history_has_calls_in_their_message_and_a_rewind_keeps_them() -> None:
    async with open_rpc_client(ScriptedDriver(ANSWERS)) as (_, client):
        image_id = (await created(client))["imageId"]
        await client.ask("message.send", imageId=image_id, content="What is 1+1?")
        messages = (await client.ask("image.messages", imageId=image_id))["messages"]
        assert [message["subtype"] for message in messages] == ["user", "assistant", "tool-result", "assistant"]
        asked = messages[1]
        assert [part["type"] for part in asked["content"]] == ["tool-call"]
        await client.ask("runtime.rewind", imageId=image_id, messageId=asked["id"])
        rewound = next(event for event in client.events if event["type"] == "rewind")
        assert (rewound["data"]["truncatedCount"], rewound["context"]["imageId"]) == (2, image_id)
        kept = (await client.ask("image.messages", imageId=image_id))["messages"]
        assert kept == messages[:2]
        assert (await client.refused("runtime.rewind", imageId=image_id))[0] == -32602
        assert (await client.refused("runtime.rewind", imageId=image_id, messageId="msg_none"))[0] == 404


@pytest.mark.parametrize("older", ["agent.list", "workspace.list"])
async def test_the_names_of_earlier_versions_are_known(older: str) -> None:
    async with open_rpc_client() as (_, client):
        image_id = (await created(client))["imageId"]
        assert list(await client.ask(older, imageId=image_id)) in (["agents"], ["files"])
