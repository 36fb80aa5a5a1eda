"""A large rewind shows everybody the same as a small one does: at once, while it is settled, after a crash, and at the end."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conformance.records import HOME, IMAGE, SESSION, image
from tests.conformance.sessions import ANN, answered, mine, said
from tests.conformance.store import ACME, settle
from tests.support.examples import examples

from agentvm.model.ids import MessageId, RewindId
from agentvm.model.message import Message
from agentvm.storage.base import Rewinding, SessionWrite
from agentvm.storage.engine import open_store
from agentvm.storage.retention import SessionAddress
from agentvm.storage.sessions import ANYBODY, MessageQuery, MessageSearch
from agentvm.storage.sql.sessions import rewinding, rewound_ranges
from agentvm.storage.sql.sessions.rewound_ranges import settle_ranges
from agentvm.storage.sql.store import Store

NAMES = [f"m{number}" for number in range(10)]


@pytest.fixture(autouse=True)
def all_are_large() -> Iterator[None]:
    """Every rewind is a large one, and settled two messages at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rewinding, "TAKEN_MAX", 0)
        patch.setattr(rewound_ranges, "ROWS_MAX", 2)
        yield


async def commit(store: Store, *messages: Message, rewind: Rewinding | None = None) -> None:
    write = SessionWrite(tenant_id=ACME, container_id=HOME, session_id=SESSION, now=5, messages=messages, rewind=rewind)
    await store.commit([write])


def spoken(name: str) -> Message:
    number = int(name[1:])
    return said(name, f"needle {number}") if number % 2 == 0 else answered(name, f"needle {number}")


def taking(name: str, ids: Sequence[str], at: int = 7) -> Rewinding:
    return Rewinding(RewindId(name), [MessageId(message_id) for message_id in ids], at)


async def settle_some(store: Store) -> bool:
    return await store._database.write(settle_ranges)


async def count_ranges(store: Store) -> int:
    query = "SELECT count(*) FROM rewound_ranges"
    return int((await store._database.read(lambda connection: connection.fetch(query)))[0][0])


async def observe(store: Store, ids: Sequence[str], rewinds: Sequence[str]) -> dict[str, object]:
    """All that anybody can ask of the session."""
    home, sessions, carrier = store.tenant(ACME).container(HOME), mine(store), store.carrier(ACME)
    history = await carrier.history(HOME, SESSION)
    recent, more = await home.list_recent_messages(SESSION, 10**9)
    listed = [await sessions.get(SESSION, reader) for reader in (ANN, ANYBODY)]
    pages: dict[str, object] = {}
    for rewind in (None, *rewinds):
        query = MessageQuery(rewind=None if rewind is None else RewindId(rewind), limit=3)
        for order in ("oldest", "newest"):
            page = await sessions.messages(SESSION, MessageQuery(rewind=query.rewind, limit=3, order=order))
            assert page is not None
            pages[f"{rewind} {order}"] = ([message.id for message in page.messages], page.total, page.next)
    hits = await sessions.search(MessageSearch(text="needle"))
    return {
        "stand": [message.id for message in await home.list_messages(SESSION)],
        "recent": ([message.id for message in recent], more),
        "recalled": [message.id for message in (await home.log(SESSION).recall()).messages],
        "listed": [(item and item.session.preview, item and item.unread, item and item.cursor) for item in listed],
        "pages": pages,
        "found": ([(hit.message_id, hit.position) for hit in hits.items], hits.total),
        "rewinds": await sessions.rewinds(SESSION),
        "stood": {one: _ids(await sessions.history(SESSION, MessageId(one), 10**9)) for one in ids},
        "carried": [message.id for message in (await carrier.read(HOME, SESSION, history, 0)).messages],
        "here": await carrier.existing_sessions({SESSION: ids[0] if ids else None}),
        "told": [message.id for message in await home.log(SESSION).get_messages([MessageId(one) for one in ids])],
    }


def _ids(messages: Sequence[Message] | None) -> list[str] | None:
    return None if messages is None else [message.id for message in messages]


acts = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.integers(1, 4)),
        st.tuples(st.just("take"), st.sets(st.integers(0, 9), min_size=1)),
        st.tuples(st.just("settle"), st.integers(1, 3)),
        st.tuples(st.just("read"), st.none()),
    ),
    max_size=14,
)


@settings(max_examples=examples(20, 400), deadline=None)
@given(acts)
def test_a_large_rewind_shows_what_a_small_one_does(acts: Sequence[tuple[str, object]]) -> None:
    async def run() -> None:
        async with open_store(None) as large, open_store(None) as small:
            ids, rewinds = list[str](), list[str]()
            for store in (large, small):
                await settle(store, image())
            for act, what in acts:
                if act == "say" and isinstance(what, int):
                    added = NAMES[len(ids) : len(ids) + what]
                    ids += added
                    for store in (large, small):
                        await commit(store, *map(spoken, added))
                elif act == "take" and isinstance(what, set):
                    rewinds.append(f"r{len(rewinds)}")
                    taken = [one for number, one in enumerate(ids) if number in what]
                    await commit(large, rewind=taking(rewinds[-1], taken))
                    with pytest.MonkeyPatch.context() as patch:
                        patch.setattr(rewinding, "TAKEN_MAX", 100)
                        await commit(small, rewind=taking(rewinds[-1], taken))
                elif act == "settle" and isinstance(what, int):
                    for _ in range(what):
                        await settle_some(large)
                else:
                    for store in (large, small):
                        await mine(store).mark_read(SESSION, ANN, 6)
                assert await observe(large, ids, rewinds) == await observe(small, ids, rewinds)
            while await settle_some(large):
                pass
            assert await count_ranges(large) == 0
            assert await observe(large, ids, rewinds) == await observe(small, ids, rewinds)

    anyio.run(run)


async def test_after_a_crash_it_is_settled_by_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "agentvm.db"
    async with open_store(path) as store:
        await settle(store, image())
        await commit(store, *map(spoken, NAMES))
        await commit(store, rewind=taking("r", NAMES[1:]))
        await settle_some(store)
        shown = await observe(store, NAMES, ["r"])
    async with open_store(path) as store:
        assert await observe(store, NAMES, ["r"]) == shown
        while await store.tend_search():
            pass
        assert await count_ranges(store) == 0
        assert await observe(store, NAMES, ["r"]) == shown


async def test_retention_waits_for_a_rewind_that_is_not_settled() -> None:
    async with open_store(None) as store:
        await settle(store, image())
        await commit(store, *map(spoken, NAMES))
        await commit(store, rewind=taking("r", NAMES[1:]))
        retention, place = store.tenant(ACME).retention(), SessionAddress(HOME, SESSION)
        assert (await retention.drop_rewound(place, 100)).messages == 0
        while await settle_some(store):
            pass
        assert (await retention.drop_rewound(place, 100)).messages == 9
        assert await mine(store).rewinds(SESSION) == ()


async def test_ranges_go_with_their_session() -> None:
    async with open_store(None) as store:
        home = await settle(store, image())
        await commit(store, *map(spoken, NAMES))
        await commit(store, rewind=taking("r", [NAMES[2], NAMES[4]]))
        assert await count_ranges(store) == 2
        assert await home.delete_image(IMAGE)
        assert await count_ranges(store) == 0
