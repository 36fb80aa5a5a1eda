from typing import Any

import anyio
import httpx2
from tests.gateways.mcp.fixtures import calling, handshake, management

from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import Pause, last_user_text, reply
from agentvm.gateways.mcp.running import SESSION_HEADER

CANCEL = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}


async def test_a_client_cancels_its_own_call_and_not_one_of_the_same_id() -> None:
    gate = anyio.Event()

    def script(prompt: Prompt) -> Any:
        return reply("mine") if last_user_text(prompt) == "again" else [*reply("one")[:3], Pause(gate), *reply("one")[3:]]

    async with calling(script) as (_, served), httpx2.AsyncClient(base_url=served.http, timeout=60) as http:
        results: dict[str, Any] = {}

        async def ask(name: str, container: str = "default") -> None:
            body = handshake("tools/call", name="ask_default", arguments={"message": name})
            headers = {SESSION_HEADER: name, "X-AVM-Container": container, "Accept": "application/json"}
            results[name] = (await http.post("/mcp", json=body, headers=headers)).json()["result"]["structuredContent"]

        async def cancel(body: object, **headers: str) -> None:
            told = await http.post("/mcp", json=body, headers=headers)
            assert (told.status_code, told.content) == (202, b"")

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for name, container in (("first", "default"), ("second", "default"), ("elsewhere", "other")):
                    tasks.start_soon(ask, name, container)
                while len((await management(served, "GET", "/v1/turns"))["items"]) < 3:
                    await anyio.lowlevel.checkpoint()
                for params in ({}, {"requestId": None}, {"requestId": [1]}, {"requestId": "1"}, {"requestId": 2}):
                    await cancel({**CANCEL, "params": params}, **{SESSION_HEADER: "first"})
                await cancel(CANCEL)
                await cancel(CANCEL, **{SESSION_HEADER: "nobody"})
                await cancel(CANCEL, **{SESSION_HEADER: "elsewhere"})
                while "first" not in results:
                    # The turn may begin a moment before its name is stored.
                    await cancel(CANCEL, **{SESSION_HEADER: "first"})
                assert results["first"]["outcome"] == "interrupted"
                assert sorted(results) == ["first"]
                gate.set()
        assert results["second"]["outcome"] == results["elsewhere"]["outcome"] == "completed"
        await cancel(CANCEL, **{SESSION_HEADER: "first"})
        await ask("again")
        assert (results["again"]["answer"], results["again"]["outcome"]) == ("mine", "completed")
