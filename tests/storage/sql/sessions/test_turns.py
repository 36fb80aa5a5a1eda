from dataclasses import replace
from typing import Any

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from tests.conformance.records import HOME, IMAGE, SESSION, image, session, turn
from tests.conformance.sessions import mine, said
from tests.conformance.store import ACME, RIVAL, raises, settle
from tests.support.examples import examples

from agentvm.errors import InvalidInput
from agentvm.model.ids import ContainerId, ImageId, MessageId, SessionId
from agentvm.model.turn import Turn
from agentvm.storage.engine import open_store
from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.sessions import TurnQuery
from agentvm.storage.sql.sessions.listing import scope
from agentvm.storage.sql.sessions.turns import RECENT_MS
from agentvm.storage.sql.store import Store


async def run(store: Store, name: str, at: int, took: int | None, where: str = SESSION) -> Turn:
    """A turn that was accepted then; one that has not ended for None."""
    home = store.tenant(ACME).container(HOME)
    ended = None if took is None else at + took
    made = structs.replace(
        turn(name, at=at, outcome=None if took is None else "completed", ended=ended),
        session_id=SessionId(where),
        message_id=MessageId(f"m-{name}"),
    )
    await home.log(SessionId(where)).record(messages=[said(f"m-{name}", "x", at)], turns=[made], now=at)
    return made


async def found(store: Store, **wanted: Any) -> list[str]:
    return [one.turn_id for one in (await mine(store).turns(TurnQuery(now=1_000, **wanted))).items]


async def test_turns_of_all_sessions_are_listed_by_age_or_by_what_they_took(store: Store) -> None:
    home = await settle(store, image())
    await home.add_session(session("other"))
    for name, at, took, where in (
        ("a", 10, 50, SESSION),
        ("b", 20, 5, "other"),
        ("c", 30, None, SESSION),
        ("d", 40, 90, "other"),
    ):
        await run(store, name, at, took, where)
    assert await found(store) == ["d", "c", "b", "a"]
    assert await found(store, order="slowest") == ["c", "d", "a", "b"]
    assert await found(store, since=20, until=40) == ["c", "b"]
    assert await found(store, outcome="running") == ["c"]
    assert await found(store, outcome="completed", order="slowest", limit=1) == ["d"]
    assert await found(store, session_id=SESSION) == ["c", "a"]
    assert await found(store, since=41) == []
    assert await found(store, changed_since=60) == ["d", "a"]
    assert await found(store, image_id=IMAGE, changed_since=30) == ["d", "c", "a"]
    assert await found(store, image_id=ImageId("img_other")) == []
    counted = await mine(store).turns(TurnQuery(now=1_000, counts=True, limit=1, since=20))
    assert ([one.turn_id for one in counted.items], counted.total) == (["d"], 3)
    following = await mine(store).turns(TurnQuery(now=1_000, counts=True, limit=1, since=20, after=counted.next))
    assert ([one.turn_id for one in following.items], following.total) == (["c"], 3)
    assert await raises(InvalidInput, mine(store).turns(TurnQuery(after="?")))


async def test_those_of_other_containers_tenants_and_deleted_sessions_are_not_there(store: Store) -> None:
    await settle(store, image())
    await run(store, "a", 10, 5)
    for others in (store.tenant(ACME).sessions([ContainerId("elsewhere")]), store.tenant(RIVAL).sessions(None)):
        assert (await others.turns(TurnQuery())).items == ()
    assert [one.image_id for one in (await store.tenant(ACME).sessions(None).turns(TurnQuery())).items] == [IMAGE]
    await mine(store).delete(SESSION, 20)
    assert await found(store) == []


async def test_a_look_at_the_last_day_does_not_read_what_is_older(store: Store, database: SqliteDatabase) -> None:
    await settle(store, image())
    values: dict[str, Any] = {"since": 1}
    query = f"EXPLAIN QUERY PLAN SELECT 1 FROM sessions AS s WHERE {scope(ACME, [HOME], values)} "
    query += "AND s.is_pinned IN (0, 1) AND s.active_at >= :since"
    plan, *_ = await database.read(lambda connection: [str(row[3]) for row in connection.fetch(query, values)])
    assert "active_at>?" in plan


async def steps_of(store: Store, database: SqliteDatabase, query: TurnQuery, turns: list[str]) -> int:
    """What a list of all of a tenant's turns takes SQLite, in its own steps."""
    steps = 0

    def count() -> bool:
        nonlocal steps
        steps += 1
        return False

    await database.read(lambda connection: connection.raw.set_progress_handler(count, 1))
    page = await store.tenant(ACME).sessions(None).turns(query)
    await database.read(lambda connection: connection.raw.set_progress_handler(None))
    assert [one.turn_id for one in page.items] == turns
    return steps


async def test_the_newest_turns_of_a_tenant_are_found_without_a_visit_to_each_session(
    store: Store, database: SqliteDatabase
) -> None:
    home = await settle(store, image())
    hour = 60 * RECENT_MS
    for number in range(100):
        await home.add_session(session(f"s{number}"))
        await run(store, f"t{number}", number * hour + 1, 5, f"s{number}")
    newest = TurnQuery(now=99 * hour + 2, limit=1)
    # A connection reads the schema before its first statement.
    await store.tenant(ACME).sessions(None).turns(newest)
    few = await steps_of(store, database, newest, ["t99"])
    all_of_them = await steps_of(store, database, replace(newest, order="slowest"), ["t99"])
    assert few * 4 < all_of_them


@settings(max_examples=examples(20, 400), deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 30), st.none() | st.integers(0, 30), st.booleans()), max_size=12),
    st.sampled_from(["newest", "slowest"]),
    st.integers(1, 5),
    st.none() | st.integers(0, 31),
    st.booleans(),
    st.sampled_from([1, RECENT_MS, 20 * RECENT_MS]),
)
def test_pages_are_what_a_naive_reader_sorts(
    runs: list[tuple[int, int | None, bool]], order: Any, limit: int, since: int | None, all_containers: bool, spread: int
) -> None:
    now = 1_000 * spread

    async def check() -> None:
        async with open_store(None) as store:
            home = await settle(store, image())
            await home.add_session(session("other"))
            made = [
                await run(store, f"t{number}", at * spread, took, "other" if elsewhere else SESSION)
                for number, (at, took, elsewhere) in enumerate(runs)
            ]
            oldest = None if since is None else since * spread
            kept = [(one, number) for number, one in enumerate(made) if oldest is None or one.accepted_at >= oldest]

            def rank(item: tuple[Turn, int]) -> tuple[int, int]:
                one, number = item
                by = one.accepted_at if order == "newest" else (one.ended_at or now) - one.accepted_at
                return by, number

            naive = [one.turn_id for one, _ in sorted(kept, key=rank, reverse=True)]
            pages, after = list[str](), None
            while True:
                wanted = TurnQuery(order=order, now=now + len(pages), limit=limit, since=oldest, after=after)
                page = await store.tenant(ACME).sessions(None if all_containers else [HOME]).turns(wanted)
                pages += [one.turn_id for one in page.items]
                after = page.next
                if after is None:
                    break
            assert pages == naive

    anyio.run(check)
