import json
from typing import Any

import anyio
import httpx2
import pytest
from tests.gateways.langgraph.fixtures import ASKING, asking, client_at, converse, interrupted_by, texts
from tests.support.relay import relaying
from tests.support.serving import serving

CHANNELS = ["values", "messages", "tools", "lifecycle", "input"]


async def test_the_official_client_follows_a_thread() -> None:
    """A text, a tool, an approval and a failure, over one connection that stays open."""
    async with serving(converse, tools=ASKING) as served, client_at(served.port) as client:
        async with client.threads.stream(assistant_id="default") as thread:
            await thread.run.start(input={"messages": "tool"})
            said = [message async for message in thread.messages]
            assert [await message.text for message in said] == ["", "It is 2"]
            assert (await said[0].tool_calls)[0]["args"] == {"expression": "1+1"}
            assert texts(await thread.output)[-1] == "It is 2"
        async with client.threads.stream(assistant_id="default") as thread:
            await thread.run.start(input={"messages": "ask"})
            assert len([message async for message in thread.messages]) == 1
            assert thread.interrupts[0]["value"]["action_requests"][0]["name"] == "current_time"
            await thread.run.respond({"decisions": [{"type": "approve"}]})
            assert texts(await thread.output)[-1] == "It is 2"
        async with client.threads.stream(assistant_id="default") as thread:
            await thread.run.start(input={"messages": "fail"})
            with pytest.raises(RuntimeError, match="busy"):
                await thread.output


@pytest.mark.parametrize("transport", ["sse", "websocket"])
async def test_a_run_is_stopped_while_the_official_client_follows_its_thread(transport: str) -> None:
    async with serving(converse) as served, client_at(served.port) as client:
        async with client.threads.stream(assistant_id="default", transport=transport) as thread:
            run = await thread.run.start(input={"messages": "wait"})
            said = []
            async for message in thread.messages:
                said.append(message)
                await client.runs.cancel(thread.thread_id, run["run_id"])
            assert [await message.text for message in said] == ["one "]
            assert texts(await thread.output) == ["wait", "one "]
            assert (await client.runs.get(thread.thread_id, run["run_id"]))["status"] == "interrupted"


async def test_the_official_client_reconnects_by_itself() -> None:
    lost = anyio.Event()
    async with serving(interrupted_by(lost)) as served, relaying(served.port, (b'"one ', lost)) as relay:
        async with client_at(relay.port) as client, client.threads.stream(assistant_id="default") as thread:
            await thread.run.start(input={"messages": "slow"})
            (said,) = [message async for message in thread.messages]
            assert await said.text == "one two"
        assert relay.cuts == []
        assert len(served.model.prompts) == 1


async def followed(http: httpx2.AsyncClient, thread_id: str, **about: Any) -> list[dict[str, Any]]:
    """The events of a thread until its run has ended."""
    events: list[dict[str, Any]] = []
    body = {"channels": CHANNELS, **about}
    async with http.stream("POST", f"/threads/{thread_id}/stream/events", json=body) as response:
        assert response.status_code == 200
        async for line in response.aiter_lines():
            if line.startswith("data: "):
                events.append(json.loads(line.removeprefix("data: ")))
                data = events[-1]["params"]["data"]
                if events[-1]["method"] == "lifecycle" and data["event"] in ("completed", "failed", "interrupted"):
                    return events
    return events


async def test_a_stream_begins_with_the_run_of_now_or_after_a_number() -> None:
    async with serving(converse) as served, asking(served) as http:
        numbers = []
        for text in ("first", "second"):
            params = {"assistant_id": "default", "input": {"messages": text}}
            answer = await http.post("/threads/mine/commands", json={"id": 5, "method": "run.start", "params": params})
            numbers.append(answer.json()["meta"]["applied_through_seq"])
            whole = await followed(http, "mine")
            assert [event["params"]["data"]["event"] for event in whole if event["method"] == "lifecycle"] == [
                "running",
                "completed",
            ]
        values = [event["params"]["data"] for event in whole if event["method"] == "values"]
        assert texts(values[0]) == ["first", "You said first", "second"]
        assert await followed(http, "mine", since=numbers[1]) == whole
        for event in whole:
            rest = await followed(http, "mine", since=event["seq"]) if event["method"] != "lifecycle" else []
            assert rest == whole[len(whole) - len(rest) :]
        earlier = await followed(http, "mine", since=numbers[0])
        assert texts(next(event["params"]["data"] for event in reversed(earlier) if event["method"] == "values")) == texts(
            {"messages": values[0]["messages"][:2]}
        )
        missing = await http.post("/threads/nobody/stream/events", json={"channels": CHANNELS})
        assert (missing.status_code, missing.json()["detail"]) == (404, "Thread not found: nobody")
