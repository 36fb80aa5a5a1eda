from typing import Any

import anyio
from tests.gateways.langgraph.fixtures import HI, asking, client_at, interrupted_by, streamed, talking
from tests.support.relay import relaying
from tests.support.serving import serving

from agentvm.drivers.scripted import Pause, reply


async def test_a_stream_that_was_cut_goes_on_after_the_last_event() -> None:
    """The official client asks for the rest by itself, with the place and the number that the server gave it."""
    gate = anyio.Event()
    async with talking(lambda prompt: [*reply("one two three")[:3], Pause(gate), *reply("four")[1:]]) as (client, served):
        thread = await client.threads.create()
        async with asking(served) as http:
            path = f"/threads/{thread['thread_id']}/runs/stream"
            body = {"assistant_id": "default", "input": HI, "stream_mode": ["messages-tuple", "values"]}
            text, last = "", ""
            async with http.stream("POST", path, json=body) as response:
                place = response.headers["location"]
                async for line in response.aiter_lines():
                    last = line.removeprefix("id: ") if line.startswith("id: ") else last
                    if "AIMessageChunk" in line:
                        text = line
                        break
            assert place.startswith("/threads/")
            gate.set()
            run_id = place.split("/")[4]
            rest = await streamed(
                client.runs.join_stream(
                    thread["thread_id"], run_id, last_event_id=last, stream_mode=["messages-tuple", "values"]
                )
            )
            whole, endless = [
                await streamed(client.runs.join_stream(thread["thread_id"], run_id, last_event_id=number))
                for number in ("-1", "9" * 5_000)
            ]
        said = "".join(data[0]["content"] for name, data in rest if name == "messages")
        final = next(data for name, data in reversed(rest) if name == "values")
        first = text.partition('"content":"')[2].partition('"')[0]
        assert first + said == final["messages"][-1]["content"]
        assert [name for name, _ in whole] == ["metadata", "values", "values"]
        assert endless == whole


async def test_the_official_client_reconnects_by_itself() -> None:
    lost = anyio.Event()
    async with serving(interrupted_by(lost)) as served, relaying(served.port, (b"AIMessageChunk", lost)) as relay:
        async with client_at(relay.port) as client:
            thread = await client.threads.create()
            about = {"input": {"messages": "slow"}, "stream_mode": "messages-tuple"}
            events = await streamed(client.runs.stream(thread["thread_id"], "default", **about))
        assert "".join(data[0]["content"] for name, data in events if name == "messages") == "one two"
        assert relay.cuts == []
        assert len(served.model.prompts) == 1


async def test_a_client_that_leaves_stops_a_run_only_if_it_wants_that() -> None:
    gate = anyio.Event()
    async with talking(lambda prompt: [*reply("one")[:3], Pause(gate), *reply("two")[3:]]) as (client, _):
        outcomes = []
        for choice in ("cancel", "continue"):
            thread = await client.threads.create()
            parts = client.runs.stream(
                thread["thread_id"], "default", input=HI, stream_mode="messages-tuple", on_disconnect=choice
            )
            async for part in parts:
                if part.event == "messages":
                    break
            await parts.aclose()
            if choice == "continue":
                gate.set()
            runs = await client.runs.list(thread["thread_id"])
            await client.runs.join(thread["thread_id"], runs[0]["run_id"])
            outcomes.append((await client.runs.list(thread["thread_id"]))[0]["status"])
        assert outcomes == ["interrupted", "success"]


async def test_a_run_whose_thread_is_deleted_meanwhile_is_answered_with_an_error() -> None:
    async with talking(lambda prompt: [*reply("one")[:3], Pause(anyio.Event())]) as (client, served), asking(served) as http:
        thread_id = (await client.threads.create())["thread_id"]
        values: list[Any] = []

        async def wait() -> None:
            body = {"assistant_id": "default", "input": HI}
            values.append((await http.post(f"/threads/{thread_id}/runs/wait", json=body)).json())

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait)
                while (await client.threads.get(thread_id))["status"] != "busy":
                    await anyio.lowlevel.checkpoint()
                await client.threads.delete(thread_id)
        assert values[0]["__error__"]["error"] == "session_not_found"
