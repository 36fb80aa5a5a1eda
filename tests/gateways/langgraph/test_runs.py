import uuid
from typing import Any

import anyio
import pytest
from langgraph_sdk.errors import ConflictError
from tests.gateways.langgraph.fixtures import HI, asking, streamed, talking, texts

from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import Pause, reply, tool_calls
from agentvm.errors import ProviderOverloaded


def calculate(prompt: Prompt) -> Any:
    if len(prompt.conversation) == 1:
        return tool_calls(("call_1", "calculator", {"expression": "1+1"}))
    return reply("It is 2")


async def test_a_text_turn_is_streamed_in_every_mode_and_awaited() -> None:
    async with talking() as (client, served):
        thread = await client.threads.create()
        modes = ["values", "messages-tuple", "messages", "updates", "events"]
        created: list[Any] = []
        parts = client.runs.stream(thread["thread_id"], "default", input=HI, stream_mode=modes, on_run_created=created.append)
        events = await streamed(parts)
        assert events[0][0] == "metadata"
        assert events[0][1]["run_id"] == created[0]["run_id"]
        assert created[0]["thread_id"] == thread["thread_id"]
        assert [texts(data) for name, data in events if name == "values"] == [["hi"], ["hi", "hi"]]
        said = [data[0] for name, data in events if name == "messages"]
        assert "".join(chunk["content"] for chunk in said) == "hi"
        final = next(data for name, data in reversed(events) if name == "values")
        assert {chunk["id"] for chunk in said} == {final["messages"][-1]["id"]}
        assert [data["agent"]["messages"][0]["content"] for name, data in events if name == "updates"] == ["hi"]
        assert [data[0]["type"] for name, data in events if name == "messages/complete"] == ["ai"]
        run = await client.runs.get(thread["thread_id"], created[0]["run_id"])
        assert run["status"] == "success"
        again = {"messages": [*final["messages"], {"type": "human", "content": "more", "id": str(uuid.uuid4())}]}
        values = await client.runs.wait(thread["thread_id"], "default", input=again)
        assert texts(values) == ["hi", "hi", "more", "more"]
        assert len(served.model.prompts) == 2
        assert len(served.model.prompts[-1].conversation) == 3
        listed = await client.runs.list(thread["thread_id"])
        assert [item["status"] for item in listed] == ["success", "success"]
        (first,) = await client.runs.list(thread["thread_id"], offset=1)
        assert first["run_id"] == created[0]["run_id"]
        assert await client.runs.list(thread["thread_id"], offset=2) == []
        assert await client.runs.list(thread["thread_id"], offset=10**6, limit=int("9" * 4_000)) == []


async def test_a_tool_turn_shows_the_call_and_its_result() -> None:
    async with talking(calculate) as (client, _):
        thread = await client.threads.create()
        events = await streamed(
            client.runs.stream(thread["thread_id"], "default", input=HI, stream_mode=["values", "messages-tuple", "updates"])
        )
        values = [data for name, data in events if name == "values"][-1]
        kinds = [message["type"] for message in values["messages"]]
        assert kinds == ["human", "ai", "tool", "ai"]
        called, result = values["messages"][1], values["messages"][2]
        call = {"name": "calculator", "args": {"expression": "1+1"}, "id": "call_1", "type": "tool_call"}
        assert called["tool_calls"] == [call]
        assert (result["tool_call_id"], result["content"], result["status"]) == ("call_1", "2", "success")
        chunks = [chunk for name, data in events if name == "messages" for chunk in data[0].get("tool_call_chunks", ())]
        assert "".join(chunk["args"] for chunk in chunks) == '{"expression":"1+1"}'
        assert [next(iter(data)) for name, data in events if name == "updates"] == ["agent", "tools", "agent"]
        state = await client.threads.get_state(thread["thread_id"])
        assert [message["id"] for message in state["values"]["messages"]] == [message["id"] for message in values["messages"]]
        assert state["values"]["messages"][1]["tool_calls"] == [call]


async def test_a_failure_is_an_error_in_the_stream_and_in_what_is_awaited() -> None:
    def script(prompt: Prompt) -> Any:
        raise ProviderOverloaded("busy")

    async with talking(script) as (client, _):
        thread = await client.threads.create()
        events = await streamed(client.runs.stream(thread["thread_id"], "default", input=HI))
        assert events[-1][0] == "error"
        assert events[-1][1]["error"] == "provider_overloaded"
        with pytest.raises(Exception, match="provider_overloaded"):
            await client.runs.wait(thread["thread_id"], "default", input=HI)
        state = await client.threads.get_state(thread["thread_id"])
        assert state["tasks"][-1]["error"]
        assert (await client.threads.get(thread["thread_id"]))["status"] == "error"
        assert [run["status"] for run in await client.runs.list(thread["thread_id"])] == ["error", "error"]


async def test_a_run_is_cancelled_and_joined() -> None:
    async with talking(lambda prompt: [*reply("one")[:3], Pause(anyio.Event())]) as (client, _):
        thread = await client.threads.create()
        run = await client.runs.create(thread["thread_id"], "default", input=HI)
        assert (await client.threads.get(thread["thread_id"]))["status"] == "busy"
        with pytest.raises(ConflictError):
            await client.runs.create(thread["thread_id"], "default", input=HI, multitask_strategy="reject")
        await client.runs.cancel(thread["thread_id"], run["run_id"], wait=True)
        assert (await client.runs.get(thread["thread_id"], run["run_id"]))["status"] == "interrupted"
        assert texts(await client.runs.join(thread["thread_id"], run["run_id"]))[0] == "hi"
        events = await streamed(client.runs.join_stream(thread["thread_id"], run["run_id"], stream_mode=["values", "updates"]))
        assert [name for name, _ in events][:2] == ["metadata", "values"]


async def test_a_run_behind_another_is_cancelled_without_the_one_ahead() -> None:
    gate = anyio.Event()
    async with talking(lambda prompt: [*reply("one")[:3], Pause(gate), *reply("one")[3:]]) as (client, served):
        thread_id = (await client.threads.create())["thread_id"]
        ahead, behind = [(await client.runs.create(thread_id, "default", input=HI))["run_id"] for _ in range(2)]
        with pytest.raises(ConflictError):
            await client.runs.cancel(thread_id, behind, action="rollback")
        with anyio.fail_after(60):
            await client.runs.cancel(thread_id, behind, wait=True)
            gate.set()
            await client.runs.join(thread_id, behind)
        runs = {run["run_id"]: run["status"] for run in await client.runs.list(thread_id)}
        assert runs == {ahead: "success", behind: "interrupted"}
        assert len(served.model.prompts) == 1


async def test_all_runs_of_a_thread_are_cancelled_with_those_that_wait() -> None:
    async with talking(lambda prompt: [*reply("one")[:3], Pause(anyio.Event())]) as (client, served), asking(served) as http:
        thread_id = (await client.threads.create())["thread_id"]
        runs = [await client.runs.create(thread_id, "default", input=HI) for _ in range(3)]
        for wrong in ({"status": "all"}, {"thread_id": thread_id}, {"thread_id": thread_id, "status": "done"}):
            assert (await http.post("/runs/cancel", json=wrong)).status_code == 422
        for place in ("/runs/cancel", f"/threads/{thread_id}/runs/{runs[0]['run_id']}/cancel"):
            wrong = {"thread_id": thread_id, "status": "all"}
            assert (await http.post(f"{place}?action=zzz", json=wrong)).status_code == 422
        assert (await http.get(f"/threads/{thread_id}/runs?status=zzz")).status_code == 422
        assert len(await client.runs.list(thread_id, status="running")) == 3
        await client.runs.cancel_many(thread_id=thread_id, status="all")
        assert [run["status"] for run in await client.runs.list(thread_id)] == ["interrupted"] * 3
        assert await client.runs.list(thread_id, status="timeout") == []
        assert (await client.threads.get(thread_id))["status"] == "idle"
