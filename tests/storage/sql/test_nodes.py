"""A session has one node at a time, a node that was declared dead stores nothing, and what it left is taken over once."""

import threading
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Any

import anyio
import psycopg
import pytest
from msgspec import structs
from tests.conformance.log import chunk, write
from tests.conformance.records import SESSION, image, turn, wait
from tests.conformance.store import ACME, settle

from agentvm.errors import DataDirInUse
from agentvm.errors.cluster import NodeFenced, SessionsMoved
from agentvm.model.ids import TurnId
from agentvm.model.node import NodeReport
from agentvm.model.turn import TurnOutcome
from agentvm.model.wait import AnsweredWait, WaitAnswer, WaitId
from agentvm.storage.base import Committed, LogChunk, SessionWrite
from agentvm.storage.engine import open_postgres, open_shared
from agentvm.storage.engines.postgres import database_locks
from agentvm.storage.sql.nodes import Claim, NodeStore
from agentvm.storage.sql.store import Store

Node = tuple[Store, NodeStore]
DENIED = WaitAnswer(decision="deny")


@pytest.fixture
async def pair(database_url: str) -> AsyncGenerator[tuple[Node, Node]]:
    """Two nodes over one database, in which there is a session."""
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(open_shared(database_url, "first", "1"))
        second = await stack.enter_async_context(open_shared(database_url, "second", "1"))
        await settle(first[0], image())
        yield first, second


def claim(base: int | None = 0, *, ends: bool = False) -> Claim:
    return Claim(ACME, SESSION, base, ends)


async def begin(store: Store, base: int = 0) -> Committed:
    """Accepts a message: the turn begins, and its first events are in the journal."""
    opened = structs.replace(write(), turns=(turn("t1"),))
    return await store.commit([opened], entry=b"first events", claims=[claim(base)])


async def end(store: Store, last_seq: int = 3) -> Committed:
    ended = structs.replace(write(log=chunk(1, last_seq)), turns=(turn("t1", outcome="completed"),))
    return await store.commit([ended], claims=[claim(None, ends=True)])


async def test_the_commit_that_accepts_a_message_takes_the_session_and_the_one_that_ends_the_turn_lets_it_go(
    pair: tuple[Node, Node],
) -> None:
    (store, nodes), (other, _) = pair
    assert (await begin(store)).free == frozenset()
    assert await nodes.runner(ACME, SESSION) == store.node_id
    with pytest.raises(SessionsMoved) as refused:
        await other.commit([write(text="m9")], entry=b"ghost", claims=[claim()])
    assert refused.value.runners == {SESSION: store.node_id}
    # Nothing of a refused commit is left, in the journal neither.
    assert [body for _, body in await other.read_journal()] == [b"first events"]
    assert (await end(store)).free == {SESSION}
    assert await nodes.runner(ACME, SESSION) is None


async def test_a_node_that_has_numbered_from_an_older_head_is_refused(pair: tuple[Node, Node]) -> None:
    (store, _), (other, _) = pair
    await begin(store)
    await end(store)
    with pytest.raises(SessionsMoved) as refused:
        await begin(other, base=0)
    assert refused.value.runners == {SESSION: None}
    await other.commit([write(text="m9", log=chunk(4, 5))], claims=[claim(3, ends=True)])


async def test_the_sessions_of_a_commit_are_taken_and_let_go_by_one_statement_each(
    pair: tuple[Node, Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    (store, nodes), (other, _) = pair
    images = [image(f"image{number}") for number in range(20)]
    await settle(store, *images)
    sessions = [each.session_id for each in images]
    await other.commit([], claims=[Claim(ACME, sessions[3], 0, False)])
    texts: list[str] = []
    execute = psycopg.Connection.execute

    def noted(raw: Any, query: Any, *arguments: Any) -> Any:
        if threading.current_thread().name.startswith("postgres-writer"):
            texts.append(str(query))
        return execute(raw, query, *arguments)

    monkeypatch.setattr(psycopg.Connection, "execute", noted)
    # The fourth is run by the other node, and the base of the last is wrong.
    claims = [Claim(ACME, session_id, 0, False) for session_id in sessions]
    with pytest.raises(SessionsMoved) as refused:
        await store.commit([], claims=[*claims[:-1], claims[-1]._replace(base=7)])
    assert refused.value.runners == {sessions[3]: other.node_id, sessions[-1]: None}
    assert [await nodes.runner(ACME, session_id) for session_id in sessions[:2]] == [None, None]
    free = [each for each in claims if each.session_id != sessions[3]]
    texts.clear()
    await store.commit([], claims=free)
    committed = await store.commit([], claims=[each._replace(base=None, ends=True) for each in claims])
    assert committed.free == {each.session_id for each in free}
    assert len([text for text in texts if "runner" in text]) == 2
    assert await nodes.runner(ACME, sessions[3]) == other.node_id


async def test_a_commit_that_is_tried_again_sends_the_same_statements(
    pair: tuple[Node, Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    (store, nodes), _ = pair
    sent: list[str] = []
    execute = psycopg.Connection.execute

    def lose(raw: Any, query: Any, *arguments: Any) -> Any:
        if threading.current_thread().name.startswith("postgres-writer"):
            sent.append(f"{query} {arguments}")
            if query == "COMMIT" and sum(each.startswith("COMMIT") for each in sent) == 1:
                raw.close()
        return execute(raw, query, *arguments)

    monkeypatch.setattr(psycopg.Connection, "execute", lose)
    with anyio.fail_after(60):
        await begin(store)
    begun = [place for place, text in enumerate(sent) if text.startswith("BEGIN")]
    ended = [place for place, text in enumerate(sent) if text.startswith("COMMIT")]
    # Each attempt begins with a mark of its own, by which the database is asked for it; the rest is the same.
    first, again = (sent[start + 1 : end] for start, end in zip(begun, ended, strict=True))
    assert again == first
    assert "first events" in str(again)
    assert [body for _, body in await store.read_journal()] == [b"first events"]
    assert await nodes.runner(ACME, SESSION) == store.node_id


def closing(log: LogChunk, *, answers: WaitId | None = None, ends: TurnOutcome | None = None) -> SessionWrite:
    """A write to the session of the turn that waits."""
    waits = () if answers is None else (AnsweredWait(wait_id=answers, turn_id=TurnId("t1"), answer=DENIED, at=8),)
    return structs.replace(write(log=log), waits=waits, turns=() if ends is None else (turn("t1", outcome=ends),))


@pytest.mark.parametrize("quicker", ["has answered", "has ended it"])
async def test_a_turn_that_waits_is_closed_by_one_node_only_also_when_the_other_has_read_the_new_head(
    pair: tuple[Node, Node], quicker: str
) -> None:
    (store, nodes), (other, _) = pair
    await begin(store)
    parked = structs.replace(turn("t1"), parked_at=5)
    opened = structs.replace(write(log=chunk(1, 3)), turns=(parked,), waits=(wait("w1"), wait("w2")))
    assert (await store.commit([opened], claims=[claim(None, ends=True)])).free == {SESSION}
    # The turn goes on, and waits for somebody else.
    await other.commit([closing(chunk(4, 4), answers=WaitId("w1"))], claims=[claim(3, ends=True)])
    again = structs.replace(write(log=chunk(5, 6)), turns=(parked,))
    await other.commit([again], claims=[claim(None, ends=True)])
    late = closing(chunk(7, 8), answers=WaitId("w1"), ends="interrupted")
    if quicker == "has ended it":
        ended = closing(chunk(7, 7), answers=WaitId("w2"), ends="completed")
        await other.commit([ended], claims=[claim(6, ends=True)])
        late = closing(chunk(8, 9), ends="interrupted")
    head = 7 if quicker == "has ended it" else 6
    with pytest.raises(SessionsMoved) as refused:
        await store.commit([late], entry=b"ghost", claims=[claim(head, ends=True)])
    assert refused.value.runners == {SESSION: None}
    assert await nodes.runner(ACME, SESSION) is None
    # What it does not close is stored.
    await store.commit([write(log=chunk(head + 1, head + 1))], claims=[claim(head, ends=True)])


async def test_a_turn_that_another_node_has_ended_is_not_ended_again_by_the_node_that_runs_the_session_by_now(
    pair: tuple[Node, Node],
) -> None:
    (store, _), (other, _) = pair
    await begin(store)
    parked = structs.replace(write(log=chunk(1, 3)), turns=(structs.replace(turn("t1"), parked_at=5),), waits=(wait("w1"),))
    await store.commit([parked], claims=[claim(None, ends=True)])
    await other.commit([closing(chunk(4, 5), ends="completed")], claims=[claim(3, ends=True)])
    # Read before the other has ended it; a message that was accepted since has taken the session.
    await store.commit([structs.replace(write(text="m2"), turns=(turn("t2"),))], entry=b"next", claims=[claim(5)])
    late = structs.replace(write(text="m3"), turns=(turn("t1", outcome="interrupted"),))
    with pytest.raises(SessionsMoved) as refused:
        await store.commit([late], entry=b"ghost")
    assert refused.value.runners == {SESSION: None}
    assert [body for _, body in await store.read_journal()] == [b"first events", b"next"]
    ended = structs.replace(write(log=chunk(6, 8)), turns=(turn("t2", outcome="completed"),))
    assert (await store.commit([ended], claims=[claim(None, ends=True)])).free == {SESSION}


async def test_a_session_with_an_open_turn_is_not_let_go(pair: tuple[Node, Node]) -> None:
    (store, nodes), _ = pair
    await begin(store)
    assert (await store.commit([write(log=chunk(1, 3))], claims=[claim(None, ends=True)])).free == frozenset()
    assert await nodes.runner(ACME, SESSION) == store.node_id


async def test_a_node_is_dead_only_when_its_lease_is_over_and_then_stores_nothing(pair: tuple[Node, Node]) -> None:
    (store, nodes), (_, others) = pair
    await begin(store)
    assert not await others.judge(store.node_id)
    await nodes.renew(-1, NodeReport())
    assert await others.judge(store.node_id)
    with pytest.raises(NodeFenced):
        await end(store)
    with pytest.raises(NodeFenced):
        await store.tenant(ACME).container(image().container_id).set_title(SESSION, "by a dead node", now=9)
    assert await nodes.renew(3_000, NodeReport()) is None
    assert [(row.name, row.state) for row in await others.list_all()] == [("first", "dead"), ("second", "up")]


async def test_sessions_of_the_dead_are_taken_over_once_and_their_journal_is_kept_until_then(pair: tuple[Node, Node]) -> None:
    (store, nodes), (other, others) = pair
    await begin(store)
    assert not await others.has_orphans()
    await nodes.leave()
    assert await others.has_orphans()
    (orphan,) = await others.adopt(10)
    assert (orphan.key, orphan.tail_of) == ((ACME, SESSION), store.node_id)
    assert await others.adopt(10) == ()
    await others.drop_ended()
    assert [body for _, body in await other.read_journal(node_id=store.node_id)] == [b"first events"]
    # Its turn is open, and the end of its log is still to be read: nobody lets it go.
    assert await others.release([orphan.key]) == set()
    assert [one.turn_id for _, one in await other.list_unfinished([orphan.session_key])] == ["t1"]
    await others.folded([orphan])
    await others.drop_ended()
    assert await other.read_journal() == ()
    assert (await end(other)).free == {SESSION}


async def test_what_a_node_accepts_after_it_has_handed_over_is_taken_over_when_it_has_left(pair: tuple[Node, Node]) -> None:
    (store, nodes), (_, others) = pair
    assert await nodes.hand_over() == 0
    await begin(store)
    assert await others.adopt(10) == ()
    await nodes.leave()
    with pytest.raises(NodeFenced):
        await end(store)
    assert [orphan.key for orphan in await others.adopt(10)] == [(ACME, SESSION)]


async def test_who_takes_over_and_dies_before_it_has_read_the_end_of_the_log_is_taken_over_with_it(
    pair: tuple[Node, Node], database_url: str
) -> None:
    (store, nodes), (_, others) = pair
    await begin(store)
    await nodes.leave()
    await others.adopt(10)
    await others.leave()
    async with open_shared(database_url, "third", "1") as (_, third):
        (orphan,) = await third.adopt(10)
        assert orphan.tail_of == store.node_id


async def test_a_server_alone_and_nodes_do_not_share_a_database(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_locks, "LOCK_SECONDS", 0.0)
    async with open_shared(database_url, "first", "1"):
        with pytest.raises(DataDirInUse, match="AVM_CLUSTER=on"):
            async with open_postgres(database_url):
                raise AssertionError("both were opened")
    with anyio.fail_after(60):
        async with open_postgres(database_url):
            with pytest.raises(DataDirInUse, match="AVM_CLUSTER=on"):
                async with open_shared(database_url, "first", "1"):
                    raise AssertionError("both were opened")


async def test_the_first_node_takes_over_what_a_server_alone_has_left(database_url: str) -> None:
    async with open_postgres(database_url) as alone:
        await settle(alone, image())
        await alone.commit([structs.replace(write(), turns=(turn("t1"),))], entry=b"before")
    async with open_shared(database_url, "first", "1") as (store, nodes):
        (orphan,) = await nodes.adopt(10)
        assert (orphan.key, orphan.tail_of) == ((ACME, SESSION), 0)
        assert [body for _, body in await store.read_journal(node_id=0)] == [b"before"]
