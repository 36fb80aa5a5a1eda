"""The edge with a server behind it, which books its calls and runs the tools that need a machine."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
from tests.edge.test_tools import SCHEMA, calling, tool
from tests.support.answers import anthropic_text
from tests.support.edge import EdgeServer
from tests.support.killable import free_port
from tests.support.provider import ScriptedProvider
from tests.support.wire import Json, client

from agentvm import ScriptedDriver, ServerConfig, start_server
from agentvm.config import SystemSettings

TENANT = "shop"
NANO_USD = 105_000
"""Ten tokens in at $3 and five out at $15, per million."""


class Node:
    """A server with a file, so that it can be stopped and started again."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self.port = free_port()
        self.operator = ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[httpx2.AsyncClient]:
        system = SystemSettings(port=self.port, data_dir=str(self._data_dir), auth="on", shutdown_seconds=0)
        async with start_server(ServerConfig(system=system), drivers={"scripted": ScriptedDriver()}) as server:
            if server.first_key is not None:
                self.operator = server.first_key.reveal()
            headers = {"Authorization": f"Bearer {self.operator}"}
            async with httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=60) as http:
                yield http

    async def new_key(self, http: httpx2.AsyncClient) -> str:
        request = {"name": "edge", "permissions": ["usage:write", "tools:invoke", "resources:read"]}
        return str((await http.post("/v1/auth/keys", json=request)).json()["key"])


@asynccontextmanager
async def behind(
    edge: EdgeServer, folder: Path, node: Node, key: str
) -> AsyncIterator[tuple[EdgeServer, ScriptedProvider, str]]:
    """An edge whose tenant has a key of the server."""
    variables = {
        "LEASE_SECONDS": "1",
        "NODE_URL": f"http://127.0.0.1:{node.port}",
        "NODE_KEY": "of-nobody",
        "NODE_KEYS": json.dumps({TENANT: "SHOP_KEY"}),
        "SHOP_KEY": key,
    }
    async with edge.another(folder, **variables) as other, other.provider() as provider:
        other.add_key("client", tenant=TENANT)
        other.add_key("taker", tenant=TENANT, ledger=True)
        yield other, provider, other.url_of("client")


async def booked(edge: EdgeServer, http: httpx2.AsyncClient, count: int) -> list[Json]:
    """The entries in the ledger of the server, when there are as many; an alarm sends them."""
    with anyio.fail_after(60):
        while True:
            mark = len(edge.log)
            found: list[Json] = (await http.get("/v1/usage/entries")).json()["items"]
            if len(found) >= count:
                return found
            await edge.bursts(mark, "alarm")


async def kept(edge: EdgeServer, *, delete: str = "") -> list[Json]:
    """The entries that the edge has kept, without one that is deleted first."""
    headers = {"Authorization": "Bearer taker"}
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{edge.port}", headers=headers, timeout=60) as http:
        if delete:
            assert (await http.delete("/v1/ledger", params={"container": "c1", "id": delete})).status_code == 204
        entries: list[Json] = (await http.get("/v1/ledger?container=c1")).json()["entries"]
        return entries


async def test_a_server_books_each_call_once_with_its_price_also_after_it_was_away_and_what_it_refuses_is_set_aside(
    edge: EdgeServer, tmp_path: Path
) -> None:
    node = Node(tmp_path / "node")
    async with node.running() as http:
        key = await node.new_key(http)
    async with behind(edge, tmp_path / "edge", node, key) as (other, provider, url), client(url) as alice:
        provider.play(anthropic_text("Hello"))
        image_id = (await alice.image("c1", model="test/claude-sonnet-4-5"))["imageId"]
        # No server takes an entry of a model with such a name.
        odd = (await alice.image("c1", model="test/a model"))["imageId"]
        for target, said in ((odd, "odd"), (image_id, "one"), (odd, "odd"), (image_id, "two")):
            await alice.say(target, said)
        # Nobody is there: it is tried, and tried again.
        for _ in range(2):
            mark = len(other.log)
            await other.bursts(mark, "alarm")
            # It waits longer each time, though an object that has slept remembers nothing.
            await anyio.to_thread.run_sync(other.restart_object, f"={TENANT}", "c1")
        failed = [json.loads(line) for line in other.noise if "ledger_not_pushed" in line]
        assert failed[-1]["againMs"] > failed[0]["againMs"] >= 1_000
        async with node.running() as http:
            first = await booked(other, http, 2)
            assert {(entry["cost"], entry["price"]) for entry in first} == {(NANO_USD, NANO_USD * 105 // 100)}
            assert {(entry["containerId"], entry["driver"], entry["model"]) for entry in first} == {
                ("c1", "anthropic", "claude-sonnet-4-5")
            }
            mark = len(other.log)
            await alice.say(image_id, "three")
            assert len(await booked(other, http, 3)) == 3
            bursts = await other.bursts(mark, "alarm")
            refused, last = await kept(other)
            assert refused["model"] == last["model"] == "a model"
            assert "invalid_input" in refused["refused"]
            assert await kept(other, delete=refused["id"]) == [last]
            assert sum("ledger_entry_refused" in line for line in other.noise) == 2
            assert key not in "".join(other.noise)
    turn = [burst for burst in bursts if burst.what in ("accept", "fold", "alarm", "message")]
    assert len(turn) <= 3
    assert sum(burst.rows for burst in turn) <= 4


async def test_tools_that_need_a_machine_run_on_the_server_as_their_image_has_them(edge: EdgeServer, tmp_path: Path) -> None:
    node = Node(tmp_path / "node")
    content: dict[str, Any] = {
        "description": "Shouts",
        "runtime": "python",
        "entry": "def run(city):\n    return city.upper()",
        "inputSchema": SCHEMA,
    }
    async with node.running() as http:
        key = await node.new_key(http)
        made = await http.post("/v1/resources", json={"type": "tools", "name": "shout", "version": "1.0.0", "content": content})
        assert made.status_code == 201, made.text
        specs = {
            "shout": tool("shout", "python", uri=f"{made.json()['uri'].partition('@')[0]}@1.0.0"),
            "gone": tool("gone", "python", uri="resource://tools/nobody/gone@1.0.0"),
            "nameless": tool("nameless", "python"),
        }
        results: dict[str, Any] = {}
        async with behind(edge, tmp_path / "edge", node, key) as (other, provider, url):
            for name, spec in specs.items():
                async with client(url) as alice:
                    sent = await calling(alice, other, provider, name, spec)
                    assert (await alice.end_of(sent["turnId"]))["data"]["outcome"] == "completed"
                    results[name] = (await alice.wait("tool_result"))["data"]
        assert (results["shout"]["result"], results["shout"]["isError"]) == ("ULM", False)
        assert "resource_not_found" in results["gone"]["result"]
        assert "tier_unavailable" in results["nameless"]["result"]
