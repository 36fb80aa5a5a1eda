"""What one node does for all goes on on the next one when it is killed: each job once."""

import io
import signal
from pathlib import Path
from typing import Any

import anyio
import httpx2
from tests.cluster.conftest import OpenNode
from tests.cluster.test_adoption import all_ended, ask, database_url, open_nodes, rows
from tests.faults.process import Server, until
from tests.support.web import web
from tests.webhooks.fixtures import Receiver

from agentvm.knowledge.passages import IndexForm
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.vm import AgentVM

__all__ = ["database_url"]

# Due at once, as if its minute had come.
DUE = "UPDATE schedules SET next_at = 1000 * extract(epoch FROM now())::bigint, wake_at = 0 RETURNING schedule_id"
RUNS = "SELECT state FROM runs"


async def call(server: Server, method: str, path: str, **body: Any) -> dict[str, Any]:
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", timeout=60) as client:
        answer = await client.request(method, path, json=body)
        assert answer.status_code < 300, answer.text
        return dict(answer.json()) if answer.content else {}


async def test_webhooks_schedules_and_erasures_of_a_killed_node_go_on_on_the_other(tmp_path: Path, database_url: str) -> None:
    receiver = Receiver()
    async with open_nodes(tmp_path, database_url, "a", "b", pace="0.001") as (a, b), web(receiver.reply) as site:
        # The oldest node delivers for all of them, also what it has not seen.
        await call(b, "POST", "/v1/webhooks", url=site.url("/hook"), events=["turn.completed"])
        await ask(b, "first", container="away")
        await receiver.wait(1)
        await call(b, "POST", "/v1/schedules", agent="default", message="tick", cron="0 0 * * *")
        await a.end(signal.SIGKILL)
        await call(b, "DELETE", "/v1/containers/away")
        assert len(rows(database_url, DUE)) == 1
        await ask(b, "second")
        with anyio.fail_after(60):
            # Also that of the schedule.
            await receiver.wait(3)
            await until(lambda: rows(database_url, "SELECT 1 FROM erasures") == [], pause=0.1)
        await all_ended(database_url)
        assert [event["type"] for event in receiver.events] == ["turn.completed"] * 3
        assert len({event["data"]["turnId"] for event in receiver.events}) == 3
        assert rows(database_url, RUNS) == [("started",)]


async def learn(node: AgentVM) -> None:
    """The node knows the others, as after its next beat."""
    assert node.membership is not None
    node.membership.rows = await node.membership.nodes.list_all()
    node.membership.note_beat()
    await anyio.wait_all_tasks_blocked()


async def test_the_documents_of_a_node_that_has_ended_are_indexed_by_another(open_node: OpenNode) -> None:
    async with open_node("a") as a:
        async with open_node("b") as b:
            await b.store.collections(DEFAULT_TENANT).create("books", 1)
            for document in ("a.txt", "b.txt"):
                await b.store.collections(DEFAULT_TENANT).put("books", io.BytesIO(b"tea"), document, None, None, b.clock())
            key = await b.store.collection_indexes(DEFAULT_TENANT).ensure("books", str(IndexForm()))
            assert key is not None
            await learn(a)
            assert await b.store.collection_indexes(DEFAULT_TENANT).claim(key, b.clock()) is not None
            # The first is still being read.
            claimed = await a.store.collection_indexes(DEFAULT_TENANT).claim(key, a.clock())
            assert claimed is not None
            assert claimed.document.document == "b.txt"
        await learn(a)
        with anyio.fail_after(60):
            while await a.store.list_unfinished_indexes(0, 1):  # noqa: ASYNC110  # nothing tells
                await anyio.sleep(0.02)
