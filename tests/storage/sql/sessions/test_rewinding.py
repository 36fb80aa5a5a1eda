"""What is taken back leaves every list, search and count, is kept, and can be told from what was said since."""

from collections.abc import Sequence

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conformance.records import HOME, SESSION, image, session
from tests.conformance.sessions import ANN, answered, mine, said
from tests.conformance.store import ACME, settle
from tests.support.examples import examples

from agentvm.errors import NotFound
from agentvm.model.ids import MessageId, RewindId, SessionId
from agentvm.model.message import Message
from agentvm.storage.base import Rewinding, SessionWrite
from agentvm.storage.engine import open_store
from agentvm.storage.retention import SessionAddress
from agentvm.storage.sessions import ANYBODY, MessageQuery, MessageSearch
from agentvm.storage.sql.store import Store


async def commit(store: Store, *messages: Message, rewind: Rewinding | None = None) -> None:
    write = SessionWrite(tenant_id=ACME, container_id=HOME, session_id=SESSION, now=5, messages=messages, rewind=rewind)
    await store.commit([write])


def rewinding(name: str, *messages: str, at: int = 7) -> Rewinding:
    return Rewinding(RewindId(name), [MessageId(one) for one in messages], at)


async def standing(store: Store) -> list[str]:
    return [one.id for one in await store.tenant(ACME).container(HOME).list_messages(SESSION)]


async def found(store: Store, text: str) -> list[str]:
    return [hit.message_id for hit in (await mine(store).search(MessageSearch(text=text))).items]


async def test_what_is_taken_back_is_out_of_the_history_the_search_and_the_list() -> None:
    async with open_store(None) as store:
        await settle(store, image())
        await commit(
            store, said("u1", "first needle"), answered("a1", "yes"), said("u2", "second needle"), answered("a2", "no")
        )
        await mine(store).mark_read(SESSION, ANN, 6)
        await commit(store, said("u3", "third needle"), rewind=rewinding("r1", "u2", "a2"))
        assert await standing(store) == ["u1", "a1", "u3"]
        assert sorted(await found(store, "needle")) == ["u1", "u3"]
        listed = await mine(store).get(SESSION, ANN)
        assert listed is not None
        assert (listed.session.preview, listed.unread) == ("third needle", 0)
        await commit(store, answered("a3", "perhaps"))
        assert [(await mine(store).get(SESSION, who)).unread for who in (ANN, ANYBODY)] == [1, 2]  # type: ignore[union-attr]


async def test_it_is_kept_and_read_by_the_name_of_its_rewind() -> None:
    async with open_store(None) as store:
        await settle(store, image())
        await commit(store, said("u1", "one"), answered("a1", "two"), said("u2", "three"))
        await commit(store, rewind=rewinding("r1", "a1", "u2"))
        await commit(store, rewind=rewinding("r2", "u1", at=9))
        rewinds = await mine(store).rewinds(SESSION)
        assert [(one.rewind_id, one.rewound_at, one.messages) for one in rewinds or ()] == [("r2", 9, 1), ("r1", 7, 2)]
        page = await mine(store).messages(SESSION, MessageQuery(rewind=RewindId("r1"), limit=1))
        assert page is not None
        assert ([one.id for one in page.messages], page.total) == (["a1"], 2)
        rest = await mine(store).messages(SESSION, MessageQuery(rewind=RewindId("r1"), cursor=page.next))
        assert [one.id for one in rest.messages] == ["u2"]  # type: ignore[union-attr]
        log = store.tenant(ACME).container(HOME).log(SESSION)
        # Who was away is told of it all the same.
        assert [one.id for one in await log.get_messages(["u2"])] == ["u2"]
        listed = await mine(store).get(SESSION)
        assert listed is not None
        assert (listed.session.preview, listed.cursor) == (None, None)
        with pytest.raises(NotFound):
            await mine(store).messages(SESSION, MessageQuery(rewind=RewindId("r9")))
        assert await mine(store).rewinds(SessionId("gone")) is None
        assert await mine(store).history(SESSION, MessageId("gone"), 10**9) is None


async def test_a_rewind_of_another_session_is_not_there() -> None:
    async with open_store(None) as store:
        home = await settle(store, image())
        await home.add_session(session("other"), [said("u1", "copied")])
        await commit(store, said("u1", "one"))
        await commit(store, rewind=rewinding("r1", "u1"))
        assert await standing(store) == []
        assert [one.id for one in await home.list_messages(SessionId("other"))] == ["u1"]
        assert await mine(store).rewinds(SessionId("other")) == ()
        with pytest.raises(NotFound):
            await mine(store).messages(SessionId("other"), MessageQuery(rewind=RewindId("r1")))


async def test_it_goes_with_its_session() -> None:
    async with open_store(None) as store:
        home = await settle(store, image())
        await commit(store, said("u1", "one"))
        await commit(store, rewind=rewinding("r1", "u1"))
        assert await home.delete_image(image().image_id)
        left = "SELECT (SELECT count(*) FROM all_messages) + (SELECT count(*) FROM rewinds)"
        assert await store._database.read(lambda connection: connection.fetch(left)) == [(0,)]


@settings(max_examples=examples(30, 600), deadline=None)
@given(st.lists(st.integers(-1, 6), max_size=12))
def test_a_history_as_it_stood_is_what_a_model_remembers(acts: Sequence[int]) -> None:
    """-1 says something; any other number takes back so many from the end, and remembers what stood before."""

    async def run() -> None:
        async with open_store(None) as store:
            await settle(store, image())
            now: list[str] = []
            stood: dict[str, list[str]] = {}
            for number, act in enumerate(acts):
                if act < 0:
                    await commit(store, said(f"m{number}", "x"), answered(f"n{number}", "y"))
                    now += [f"m{number}", f"n{number}"]
                elif gone := now[len(now) - act :] if act else []:
                    stood |= {one: list(now) for one in gone}
                    await commit(store, rewind=rewinding(f"r{number}", *gone))
                    now = now[: -len(gone)]
                assert await standing(store) == now
            for message_id, before in [*stood.items(), *((one, now) for one in now)]:
                history = await mine(store).history(SESSION, MessageId(message_id), 10**9)
                assert [one.id for one in history or ()] == before
            assert sorted(await found(store, "x")) == sorted(one for one in now if one.startswith("m"))

    anyio.run(run)


async def test_a_history_as_it_stood_has_nothing_that_was_said_since_what_came_after_it_was_dropped() -> None:
    async with open_store(None) as store:
        await settle(store, image())
        await commit(store, said("u1", "a"), answered("a1", "b"), said("u2", "c"), answered("a2", "d"))
        await commit(store, rewind=rewinding("r1", "u2", "a2", at=7))
        await commit(store, rewind=rewinding("r2", "a1", at=20))
        assert (await store.tenant(ACME).retention().drop_rewound(SessionAddress(HOME, SESSION), 10)).messages == 2
        await commit(store, answered("new", "e"))
        stood = await mine(store).history(SESSION, MessageId("a1"), 10**9)
        assert [one.id for one in stood or ()] == ["u1", "a1"]
