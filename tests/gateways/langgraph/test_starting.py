import uuid
from typing import Any

import anyio
import httpx2
import pytest
from langgraph_sdk.errors import ConflictError, NotFoundError, UnprocessableEntityError
from tests.gateways.langgraph.fixtures import ASKING, HI, converse, streamed, talking, texts

from agentvm import Definition
from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import Pause, reply
from agentvm.model.ids import DEFAULT_TENANT


async def test_a_run_without_a_thread_leaves_nothing_behind() -> None:
    async with talking() as (client, served):
        seeded = {"messages": [{"type": "human", "content": "a"}, {"type": "ai", "content": "b"}, ["user", "c"]]}
        assert texts(await client.runs.wait(None, "default", input=seeded)) == ["a", "b", "c", "c"]
        events = await streamed(client.runs.stream(None, "default", input=HI, stream_mode="values"))
        assert texts(events[-1][1]) == ["hi", "hi"]
        run = await client.runs.create(None, "default", input=HI)
        assert texts(await client.runs.join(run["thread_id"], run["run_id"])) == ["hi", "hi"]
        assert await client.threads.count() == 0
        # Nobody deletes that one: it goes by itself.
        vm = served.running.server.vm
        expired = await vm.store.tenant(DEFAULT_TENANT).retention().expire_unstored(vm.clock() + 1)
        assert [session.session_id for session in expired] == [run["thread_id"]]
        assert len(served.model.prompts[0].conversation) == 3


@pytest.mark.parametrize(("strategy", "outcomes"), [("interrupt", ["success", "interrupted"]), ("enqueue", ["success"] * 2)])
async def test_a_second_run_waits_or_stops_the_first(strategy: str, outcomes: list[str]) -> None:
    gate = anyio.Event()

    def script(prompt: Prompt) -> Any:
        if len(served.model.prompts) == 1:
            return [*reply("one")[:3], Pause(gate), *reply("one")[3:]]
        return reply("two")

    async with talking(script) as (client, served):
        thread = await client.threads.create()
        first = await client.runs.create(thread["thread_id"], "default", input=HI)
        parts = client.runs.stream(
            thread["thread_id"], "default", input={"messages": "next"}, multitask_strategy=strategy, stream_mode="values"
        )
        events = []
        async for part in parts:
            events.append((part.event, part.data))
            gate.set()
        values = await client.runs.join(thread["thread_id"], first["run_id"])
        assert texts(values)[0] == "hi"
        assert texts(events[-1][1])[-2:] == ["next", "two"]
        assert [run["status"] for run in await client.runs.list(thread["thread_id"])] == outcomes
        if strategy == "enqueue":
            assert texts(events[-1][1]) == ["hi", "one", "next", "two"]


async def test_a_rolled_back_run_is_taken_back() -> None:
    def script(prompt: Prompt) -> Any:
        first = len(served.model.prompts) == 1
        return [*reply("one")[:3], Pause(anyio.Event())] if first else reply("two")

    async with talking(script) as (client, served):
        thread = await client.threads.create()
        await client.runs.create(thread["thread_id"], "default", input=HI)
        values = await client.runs.wait(
            thread["thread_id"], "default", input={"messages": "next"}, multitask_strategy="rollback"
        )
        assert texts(values) == ["next", "two"]


async def test_runs_that_take_back_each_other_at_once_all_begin() -> None:
    async with talking() as (client, _):
        thread_id = (await client.threads.create())["thread_id"]
        values: list[Any] = []

        async def wait(text: str) -> None:
            said = {"messages": text}
            values.append(await client.runs.wait(thread_id, "default", input=said, multitask_strategy="rollback"))

        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(wait, f"m{number}")
        assert len(values) == 8
        assert not any("__error__" in each for each in values)


async def test_a_repeated_message_begins_no_second_run() -> None:
    async with talking() as (client, served):
        thread = await client.threads.create()
        said = {"messages": [{"type": "human", "content": "hi", "id": str(uuid.uuid4())}]}
        runs = [await client.runs.create(thread["thread_id"], "default", input=said) for _ in range(2)]
        assert runs[0]["run_id"] == runs[1]["run_id"]
        await client.runs.join(thread["thread_id"], runs[0]["run_id"])
        assert len(served.model.prompts) == 1
        more = {"messages": [*said["messages"], {"type": "human", "content": "more"}]}
        assert texts(await client.runs.wait(thread["thread_id"], "default", input=more)) == ["hi", "hi", "more", "more"]


async def test_a_run_that_waits_goes_on_with_an_answer() -> None:
    async with talking(converse, tools=ASKING) as (client, _):
        thread_id = (await client.threads.create())["thread_id"]
        asked = await client.runs.wait(thread_id, "default", input={"messages": "ask"})
        assert asked["__interrupt__"][0]["value"]["action_requests"][0]["name"] == "current_time"
        thread = await client.threads.get(thread_id)
        assert (thread["status"], list(thread["interrupts"])) == ("interrupted", [asked["__interrupt__"][0]["id"]])
        resume = {"decisions": [{"type": "reject", "message": "not now"}]}
        denied = await client.runs.wait(thread_id, "default", command={"resume": resume})
        assert "not now" in denied["messages"][-2]["content"]
        tools = [{"name": "find_place", "parameters": {"type": "object"}}]
        await client.runs.wait(thread_id, "default", input={"messages": "place"}, context={"tools": tools})
        # As LangGraph writes its `Command(resume=…)`.
        command: Any = {"graph": None, "update": None, "resume": {"call_3": "59 N"}, "goto": []}
        found = await client.runs.wait(thread_id, "default", command=command)
        assert texts(found)[-2:] == ["59 N", "It is 2"]


async def test_a_run_that_waits_is_ended_without_an_answer() -> None:
    async with talking(converse, tools=ASKING) as (client, served):
        thread_id = (await client.threads.create())["thread_id"]
        end = {"goto": "__end__"}
        with pytest.raises(UnprocessableEntityError):
            await client.runs.create(thread_id, "default", command=end)
        await client.runs.wait(thread_id, "default", input={"messages": "ask"})
        ended = await client.runs.wait(thread_id, "default", command=end)
        assert "__interrupt__" not in ended
        assert [run["status"] for run in await client.runs.list(thread_id)] == ["interrupted"]
        assert (await client.threads.get(thread_id))["status"] == "idle"
        assert len(served.model.prompts) == 1
        assert texts(await client.runs.wait(thread_id, "default", input={"messages": "hi"}))[-1] == "You said hi"


async def test_a_run_from_an_earlier_checkpoint_replaces_what_followed() -> None:
    async with talking() as (client, _):
        thread = await client.threads.create()
        for text in ("one", "two"):
            values = await client.runs.wait(thread["thread_id"], "default", input={"messages": text})
        ids = [message["id"] for message in values["messages"]]
        edited = await client.runs.wait(
            thread["thread_id"], "default", input={"messages": "three"}, checkpoint={"checkpoint_id": ids[1]}
        )
        assert texts(edited) == ["one", "one", "three", "three"]
        again = await client.runs.wait(thread["thread_id"], "default", checkpoint_id=edited["messages"][2]["id"])
        assert texts(again) == texts(edited)
        assert again["messages"][-1]["id"] != edited["messages"][-1]["id"]
        first = await client.runs.wait(thread["thread_id"], "default", input={"messages": "new"}, checkpoint_id="start")
        assert texts(first) == ["new", "new"]


@pytest.mark.parametrize(
    "about",
    [
        {"input": {}},
        {"input": {"messages": [{"type": "poet", "content": "x"}]}},
        {"input": {"messages": [{"type": "human", "content": [{"type": "video"}]}]}},
        {"input": {"messages": 5}},
        {"input": HI, "interrupt_before": ["agent"]},
        {"input": HI, "after_seconds": 5},
        {"input": HI, "context": {"temperature": 9}},
        {"command": {"goto": "agent"}},
        {"command": {"goto": ["__end__"]}},
        {"command": {"resume": True}},
    ],
)
async def test_a_wrong_run_is_refused_before_a_turn_begins(about: dict[str, Any]) -> None:
    async with talking() as (client, served):
        thread = await client.threads.create()
        with pytest.raises(UnprocessableEntityError):
            await client.runs.create(thread["thread_id"], "default", **about)
        assert served.model.prompts == []


async def test_unknown_threads_agents_and_runs_are_not_found() -> None:
    async with talking(definitions=[Definition(name="default"), Definition(name="other")]) as (client, _):
        unknown = str(uuid.uuid4())
        with pytest.raises(NotFoundError):
            await client.runs.create(unknown, "default", input=HI)
        made = await client.runs.wait(unknown, "default", input=HI, if_not_exists="create")
        assert texts(made) == ["hi", "hi"]
        for wrong in (client.runs.get(unknown, "turn_x"), client.runs.create(unknown, "nobody", input=HI)):
            with pytest.raises(NotFoundError):
                await wrong
        with pytest.raises(ConflictError):
            await client.runs.create(unknown, "other", input=HI)
        fresh = await client.threads.create()
        assert texts(await client.runs.wait(fresh["thread_id"], "other", input=HI)) == ["hi", "hi"]
        assert (await client.threads.get(fresh["thread_id"]))["metadata"]["graph_id"] == "other"


@pytest.mark.parametrize("way", ["", "/wait", "/stream"])
async def test_a_run_without_a_thread_that_is_sent_twice_with_a_key_is_one_run(way: str) -> None:
    async with talking() as (_, served), httpx2.AsyncClient(base_url=f"{served.http}/langgraph", timeout=60) as http:
        body, headers = {"assistant_id": "default", "input": HI}, {"Idempotency-Key": "k1"}
        first = await http.post(f"/runs{way}", json=body, headers=headers)
        again = await http.post(f"/runs{way}", json=body, headers=headers)
        assert first.headers["content-location"] == again.headers["content-location"]
        other = await http.post(f"/runs{way}", json=body, headers={"Idempotency-Key": "k2"})
        assert other.headers["content-location"] != first.headers["content-location"]
        changed = {**body, "input": {"messages": "something else"}}
        assert (await http.post(f"/runs{way}", json=changed, headers=headers)).status_code == 422
        # A run that nobody awaits may still be about to ask the model.
        assert (await http.get(f"{other.headers['content-location']}/join")).status_code == 200
        assert len(served.model.prompts) == 2
