import uuid
from typing import Any

import anyio
import pytest
from langgraph_sdk.errors import ConflictError, NotFoundError, UnprocessableEntityError
from tests.gateways.langgraph.fixtures import HI, asking, talking, texts

from agentvm import Definition
from agentvm.gateways.langgraph.threads import METADATA_MAX_BYTES


async def test_a_thread_is_created_changed_copied_and_deleted() -> None:
    async with talking() as (client, _):
        thread_id = str(uuid.uuid4())
        thread = await client.threads.create(thread_id=thread_id, metadata={"topic": "rain"})
        assert (thread["thread_id"], thread["status"], thread["values"]) == (thread_id, "idle", {"messages": []})
        with pytest.raises(ConflictError):
            await client.threads.create(thread_id=thread_id)
        same = await client.threads.create(thread_id=thread_id, if_exists="do_nothing")
        assert same["metadata"] == {"topic": "rain"}
        await client.runs.wait(thread_id, "default", input=HI)
        changed = await client.threads.update(thread_id, metadata={"stars": 3})
        assert changed["metadata"] == {"topic": "rain", "stars": 3, "graph_id": "default", "assistant_id": "default"}
        copied = await client.threads.copy(thread_id)
        assert copied["thread_id"] != thread_id
        assert (texts(copied["values"]), copied["metadata"]) == (["hi", "hi"], changed["metadata"])
        await client.threads.delete(thread_id)
        with pytest.raises(NotFoundError):
            await client.threads.get(thread_id)
        assert (await client.threads.get(copied["thread_id"]))["status"] == "idle"


async def test_a_thread_that_is_created_twice_at_once_is_created_by_one() -> None:
    async with talking() as (client, _):
        thread_id, created, refused = str(uuid.uuid4()), [], []

        async def create(number: int) -> None:
            try:
                created.append(await client.threads.create(thread_id=thread_id, metadata={"number": number}))
            except ConflictError:
                refused.append(number)

        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(create, number)
        assert (len(created), len(refused)) == (1, 4)
        assert (await client.threads.get(thread_id))["metadata"] == created[0]["metadata"]


async def test_threads_are_found_by_their_metadata_and_their_status() -> None:
    async with talking(definitions=[Definition(name="default"), Definition(name="other")]) as (client, _):
        ids = [
            (await client.threads.create(metadata={"number": number, "flag": number > 0}))["thread_id"] for number in range(3)
        ]
        await client.runs.wait(ids[0], "other", input=HI)
        assert [thread["thread_id"] for thread in await client.threads.search()] == [ids[0], ids[2], ids[1]]
        assert [thread["thread_id"] for thread in await client.threads.search(metadata={"number": 1})] == [ids[1]]
        assert [thread["thread_id"] for thread in await client.threads.search(metadata={"graph_id": "other"})] == [ids[0]]
        assert await client.threads.search(metadata={"number": "1"}) == []
        assert await client.threads.count(metadata={"flag": True}) == 2
        assert await client.threads.count(status="busy") == 0
        assert await client.threads.search(offset=2**64 - 1) == []
        page = await client.threads.search(limit=1, offset=1, sort_by="created_at", sort_order="asc", select=["thread_id"])
        assert page == [{"thread_id": ids[1]}]
        assert [thread["thread_id"] for thread in await client.threads.search(ids=[ids[2]])] == [ids[2]]


async def test_every_session_is_a_thread_by_its_own_id() -> None:
    async with talking() as (client, served):
        run = await client.runs.create(None, "default", input=HI)
        assert run["thread_id"].startswith("sess_")
        await client.runs.join(run["thread_id"], run["run_id"])
        assert texts((await client.threads.get(run["thread_id"]))["values"]) == ["hi", "hi"]
        assert texts(await client.runs.wait(run["thread_id"], "default", input=HI))[2:] == ["hi", "hi"]
        with pytest.raises(ConflictError):
            await client.threads.update(run["thread_id"], metadata={"a": 1})
        with pytest.raises(NotFoundError):
            await client.threads.get("sess_nobody")
        with pytest.raises(NotFoundError):
            await client.threads.create(thread_id="sess_mine")
        with pytest.raises(UnprocessableEntityError):
            await client.threads.create(metadata={"notes": "x" * METADATA_MAX_BYTES})
        assert len(served.model.prompts) == 2


async def test_what_would_change_the_answer_and_is_not_read_is_refused() -> None:
    async with talking() as (client, served), asking(served) as http:
        creating: list[Any] = [{"ttl": {"ttl": 5}}, {"supersteps": [{"updates": []}]}]
        for member in creating:
            assert (await http.post("/threads", json=member)).status_code == 422
        searching: list[Any] = [{"values": {"a": 1}}, {"sort_by": "zzz"}, {"sort_by": "status"}, {"limit": -1}, {"offset": -1}]
        for member in searching:
            for way in ("search", "count"):
                assert (await http.post(f"/threads/{way}", json=member)).status_code == 422, member
        assert await client.threads.count() == 0
        thread_id = (await client.threads.create())["thread_id"]
        for way in ("stream", "wait"):
            run = {"assistant_id": "default", "input": HI, "stream_mode": "message"}
            assert (await http.post(f"/threads/{thread_id}/runs/{way}", json=run)).status_code == 422
        assert served.model.prompts == []
