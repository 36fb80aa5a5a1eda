"""Whoever listens on one node hears what another node does, in order and without gaps, whenever they come."""

from io import BytesIO
from typing import Any

import anyio
import pytest
from tests.cluster.conftest import Gate
from tests.cluster.talking import Talker
from tests.faults.process import until

from agentvm.cluster import relay
from agentvm.cluster.relay import EventRelay
from agentvm.errors.cluster import FENCED, NodeFenced, SessionMoved
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, SessionId
from agentvm.operations.context import HttpDetails, context_of
from agentvm.operations.file import FRAME_MAX_BYTES, FileDelete, FileList, FilePut, FileWrite, put
from agentvm.operations.table import CODEC
from agentvm.protocol.connection import PeerConnection
from agentvm.server.rpc_socket import presume_rpc, serve_events
from agentvm.storage.base import Committed
from agentvm.vm import AgentVM


async def test_a_listener_on_another_node_hears_a_whole_turn(nodes: tuple[AgentVM, AgentVM]) -> None:
    a, b = map(Talker, nodes)
    image_id, session_id = await a.create()
    b.listen(session_id)
    for number in range(2):
        await a.send(image_id, f"hello {number}")
        await a.until("turn_response", number + 1)
    heard = await b.until("turn_response", 2)
    assert b.cursors() == a.cursors() == list(range(1, len(heard) + 1))
    assert [event["type"] for event in heard] == [event["type"] for event in a.heard]


async def test_one_who_comes_in_the_middle_of_a_turn_hears_what_was_told_before_and_the_rest(
    nodes: tuple[AgentVM, AgentVM], gate: Gate
) -> None:
    a, b = map(Talker, nodes)
    image_id, session_id = await a.create()
    await a.send(image_id, "hold it")
    await a.until("text_delta")
    delta = next(int(event["cursor"]) for event in a.heard if event["type"] == "text_delta")
    b.listen(session_id, after=delta - 1)
    await b.until("text_delta")
    assert b.cursors()[0] == delta
    late = Talker(nodes[1])
    late.listen(session_id, after=0)
    await late.until("text_delta")
    gate.opened.set()
    await a.until("turn_response")
    await b.until("turn_response")
    await late.until("turn_response")
    assert late.cursors() == a.cursors()
    assert b.cursors() == a.cursors()[-len(b.heard) :]


async def test_one_who_comes_while_a_message_of_the_turn_cannot_be_found_hears_it_later(
    nodes: tuple[AgentVM, AgentVM], gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = map(Talker, nodes)
    image_id, session_id = await a.create()
    await a.send(image_id, "hold it")
    await a.until("text_delta")

    async def decode(*_: object) -> None:
        raise KeyError("msg_gone")

    with monkeypatch.context() as gone:
        gone.setattr(EventRelay, "_decode", decode)
        container_id = b.peer.workspace.container_id("home")
        missed = await nodes[1].runtime.replay.read(b.peer.tenant_id, container_id, session_id, 0)  # type: ignore[arg-type]
        assert missed.events == []
    b.listen(session_id, after=0)
    gate.opened.set()
    await a.until("turn_response")
    await b.until("turn_response")
    assert b.cursors() == a.cursors()


async def test_one_whose_first_frame_is_late_hears_only_what_follows_its_cursor(
    nodes: tuple[AgentVM, AgentVM], gate: Gate
) -> None:
    a, b = map(Talker, nodes)
    image_id, session_id = await a.create()
    await a.send(image_id, "hold it")
    await a.until("text_delta")
    cursor = a.cursors()[-1]
    connection = PeerConnection("conn_late", CODEC)
    # It follows the whole container until that frame, and is to be sent the turn from its beginning.
    presume_rpc(b.peer, connection)
    b.peer.join(ContainerId("home"), follow=True)
    Talker(nodes[1]).listen(session_id)
    with anyio.fail_after(60):
        await until(lambda: bool(b.peer.channel.lagging))
    serve_events(b.peer, connection)
    b.listen(session_id, after=cursor)
    gate.opened.set()
    await a.until("turn_response")
    await b.until("turn_response")
    assert b.cursors() == a.cursors()[a.cursors().index(cursor) + 1 :]


async def test_nodes_take_turns_in_one_session_and_each_goes_on_where_the_other_ended(
    nodes: tuple[AgentVM, AgentVM],
) -> None:
    a, b = map(Talker, nodes)
    image_id, session_id = await a.create()
    b.listen(session_id)
    for number in range(6):
        await (a, b)[number % 2].send(image_id, f"turn {number}")
        await a.until("turn_response", number + 1)
        await b.until("turn_response", number + 1)
    assert a.cursors() == b.cursors() == list(range(1, len(a.heard) + 1))
    answers = [event["data"]["content"] for event in a.heard if event["type"] == "assistant_message"]
    assert len(answers) == 6
    store = nodes[0].store.tenant(a.peer.tenant_id)
    with anyio.fail_after(60):
        messages = await store.container(a.peer.workspace.container_id("home")).list_messages(session_id)  # type: ignore[arg-type]
    assert len(messages) == 12


async def test_who_has_heard_more_elsewhere_waits_for_the_commit_whose_outcome_this_node_does_not_know(
    nodes: tuple[AgentVM, AgentVM], gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, talker = nodes[0], Talker(nodes[0])
    image_id, _ = await talker.create()
    await talker.send(image_id, "hold it")
    await talker.until("text_delta")
    (log,) = node.runtime.journal.claimed()
    commit, unknown = node.store.commit, anyio.Event()

    async def commit_late(*args: Any, **rest: Any) -> Committed:
        committed = await commit(*args, **rest)
        # Others read it by now.
        await unknown.wait()
        return committed

    monkeypatch.setattr(node.store, "commit", commit_late)
    gate.opened.set()
    with anyio.fail_after(60):
        await until(lambda: log.head > log.committed)
        after = log.committed + 1

        async def read_on() -> None:
            await node.runtime.replay.read(log.tenant_id, log.container_id, log.session_id, after)
            assert log.committed >= after

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read_on)
            await anyio.wait_all_tasks_blocked()
            assert log.committed < after
            unknown.set()
    await talker.until("turn_response")


async def test_who_has_heard_the_message_elsewhere_waits_for_the_commit_that_accepts_it(
    nodes: tuple[AgentVM, AgentVM], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "CATCH_UP_SECONDS", 0.0)
    node, talker = nodes[0], Talker(nodes[0])
    image_id, session_id = await talker.create()
    where = (DEFAULT_TENANT, ContainerId("home"), SessionId(session_id))
    log = await node.runtime.journal.open(*where)
    commit, unknown = node.store.commit, anyio.Event()

    async def commit_late(*args: Any, **rest: Any) -> Committed:
        committed = await commit(*args, **rest)
        await unknown.wait()
        return committed

    monkeypatch.setattr(node.store, "commit", commit_late)

    async def read_on() -> None:
        assert not (await node.runtime.replay.read(*where, 1)).lost

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(talker.send, image_id, "hello")
            await until(lambda: log.head > log.committed)
            tasks.start_soon(read_on)
            await anyio.wait_all_tasks_blocked()
            unknown.set()
    talker.listen(session_id, 0)
    await talker.until("turn_response")


async def test_a_node_that_reads_slowly_denies_no_cursor_of_another(
    nodes: tuple[AgentVM, AgentVM], gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = map(Talker, nodes)
    image_id, session_id = await a.create()
    b.listen(session_id)
    await a.send(image_id, "hold it")
    await b.until("text_delta")

    async def poll_later(_: EventRelay) -> None:
        return

    monkeypatch.setattr(EventRelay, "_poll", poll_later)
    monkeypatch.setattr(relay, "CATCH_UP_SECONDS", 0.0)
    await a.send(image_id, "and then")
    await a.until("turn_request", 2)
    last = a.cursors()[-1]
    where = (DEFAULT_TENANT, ContainerId("home"), SessionId(session_id))
    with anyio.fail_after(60):
        missed = await nodes[1].runtime.replay.read(*where, last)
    assert (missed.lost, missed.last) == (False, last)
    gate.opened.set()
    await a.until("turn_response", 2)


async def test_a_cursor_that_only_another_node_can_have_given_is_not_denied_before_this_one_knows_that_it_is_up(
    nodes: tuple[AgentVM, AgentVM], gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, talker = nodes[0], Talker(nodes[0])
    image_id, _ = await talker.create()
    await talker.send(image_id, "hold it")
    await talker.until("text_delta")
    (log,) = node.runtime.journal.claimed()
    where = (log.tenant_id, log.container_id, log.session_id)
    with anyio.fail_after(60):
        assert (await node.runtime.replay.read(*where, log.committed + 9)).lost

    async def is_dead() -> None:
        raise NodeFenced(FENCED)

    monkeypatch.setattr(node.membership, "confirm", is_dead)
    with anyio.fail_after(60), pytest.raises(NodeFenced):
        await node.runtime.replay.read(*where, log.committed + 9)
    gate.opened.set()
    await talker.until("turn_response")


async def test_files_are_written_and_deleted_in_a_session_whose_turn_runs_on_another_node(
    nodes: tuple[AgentVM, AgentVM], gate: Gate
) -> None:
    a, b = map(Talker, nodes)
    image_id, session_id = map(str, await a.create())
    where = SessionId(session_id)
    await a.send(image_id, "hold it")
    await a.until("text_delta")
    written = (await b.ask(FileWrite(session_id=where, path="small.txt", data=b"small"))).file
    with context_of(b.peer) as context:
        context.http = HttpDetails(file=BytesIO(b"uploaded"))
        uploaded = (await put(context, FilePut(session_id=where, path="sent.txt"))).content
        context.http = HttpDetails(file=BytesIO(b"x" * (FRAME_MAX_BYTES + 1)))
        with pytest.raises(SessionMoved):
            await put(context, FilePut(session_id=where, path="large.bin"))
    assert [file.size for file in (written, uploaded)] == [5, 8]
    await b.ask(FileDelete(session_id=where, path="small.txt"))
    gate.opened.set()
    await a.until("turn_response")
    assert [file.path for file in (await b.ask(FileList(session_id=where))).files] == ["sent.txt"]
    assert [event["type"] for event in a.heard if event["type"].startswith("file_")] == ["file_written"] * 2 + ["file_deleted"]
