"""What is deleted on one node while its turn runs on another: the turn ends there first, and is billed; then it is gone."""

import anyio
import psycopg
import pytest
from tests.cluster.conftest import Gate
from tests.cluster.talking import Talker
from tests.faults.process import until

from agentvm.operations.container import ContainerCreate, ContainerDelete
from agentvm.operations.image import ImageDelete
from agentvm.operations.session import SessionDelete
from agentvm.protocol.requests import Request
from agentvm.vm import OPEN_ACCESS, AgentVM

ENTRIES = "SELECT count(*) FROM ledger"
ERASURES = "SELECT count(*) FROM erasures"


def count(url: str, query: str) -> int:
    with psycopg.connect(url) as connection:
        return int(connection.execute(query.encode()).fetchall()[0][0])


@pytest.mark.parametrize("kind", ["session", "image", "container"])
async def test_a_turn_on_another_node_ends_before_what_it_writes_to_is_deleted(
    nodes: tuple[AgentVM, AgentVM], gate: Gate, shipped_url: str, kind: str
) -> None:
    a, b = map(Talker, nodes)
    image_id, session_id = await a.create()
    deleting: dict[str, Request[object]] = {
        "session": SessionDelete(session_id=session_id),  # type: ignore[arg-type]  # its id as clients have it
        "image": ImageDelete(image_id=image_id),  # type: ignore[arg-type]  # as above
        "container": ContainerDelete(container_id="home"),
    }
    for talker in (a, b):
        talker.listen(session_id, 0)
    # The other node has run a turn of it before, and has its agent in memory.
    await b.send(image_id, "hello")
    await b.until("turn_response")
    await a.send(image_id, "hold it")
    await a.until("text_delta", times=6)
    await b.ask(deleting[kind])
    assert nodes[0].runtime.roster.count_running() == 0
    heard = await a.until("turn_response", times=2)
    assert [event["data"]["outcome"] for event in heard if event["type"] == "turn_response"] == ["completed", "interrupted"]
    assert count(shipped_url, ENTRIES) == 2
    if kind == "container":
        # The node that erases for all is not the one that was asked.
        assert nodes[0].membership is not None
        assert nodes[0].membership.is_leading()
        with anyio.fail_after(30):
            await until(lambda: count(shipped_url, ERASURES) == 0, pause=0.1)
        await b.ask(ContainerCreate(container_id="home"))
    assert await nodes[1].store.tenant(OPEN_ACCESS.tenant_id).find_session(session_id) is None  # type: ignore[arg-type]
