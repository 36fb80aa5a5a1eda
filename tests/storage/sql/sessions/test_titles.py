import pytest
from tests.conformance.records import HOME, SESSION, image, session
from tests.conformance.sessions import mine, said
from tests.conformance.store import ACME, RIVAL, settle

from agentvm.model.ids import ContainerId, ImageId, SessionId
from agentvm.storage.engine import open_store
from agentvm.storage.sessions import MessageSearch
from agentvm.storage.sql.sessions.question import pieces_of
from agentvm.storage.sql.sessions.titles import has_pieces


@pytest.mark.parametrize(
    ("title", "found", "absent"),
    [
        ("Trip to Shanghai", ("trip", "shang", "SHANGHAI trip"), ("hanghai", "trip paris", "to paris")),
        ("上海天气 and Café", ("上海", "天气", "cafe", "海天"), ("北京", "afe")),
        ("read_file v2", ("file", "v2", "read_file"), ("v", "ile")),
    ],
)
def test_words_of_a_title_are_found_as_those_of_a_message(title: str, found: tuple[str, ...], absent: tuple[str, ...]) -> None:
    assert [text for text in found if not has_pieces(title, pieces_of(text))] == []
    assert [text for text in absent if has_pieces(title, pieces_of(text))] == []


async def test_titles_are_found_beside_what_was_said_the_latest_first() -> None:
    async with open_store(None) as store:
        home = await settle(store, image(), tenant=ACME)
        for number, name in enumerate(("a", "b", "c")):
            await home.add_session(session(name))
            await home.log(SessionId(name)).record(messages=[said(f"m{name}", "hello", number + 10)], now=number + 10)
        await home.set_title(SessionId("a"), "A needle", now=20)
        await home.set_title(SessionId("b"), "Another <b>needle</b>", now=20)
        await home.log(SESSION).record(messages=[said("hit", "the needle", 30)], now=30)
        page = await mine(store).search(MessageSearch(text="needle", now=40))
        assert [item.message_id for item in page.items] == ["hit"]
        assert page.total == 1
        assert [one.session.session_id for one in page.titles] == ["b", "a"]
        assert page.titles[0].snippet == "Another &lt;b&gt;<mark>needle</mark>&lt;/b&gt;"


async def test_a_search_by_title_is_narrowed_and_keeps_within_its_tenant_and_containers() -> None:
    async with open_store(None) as store:
        for tenant in (ACME, RIVAL):
            home = await settle(store, image(), tenant=tenant)
            await home.log(SESSION).record(messages=[said("m", "hello", 10)], now=10)
            await home.set_title(SESSION, "Needle", now=10)

        async def found(**about: object) -> int:
            wanted = MessageSearch(**{"text": "needle", "now": 40, **about})  # type: ignore[arg-type]  # As the tests say.
            return len((await store.tenant(ACME).sessions(None).search(wanted)).titles)

        assert await found() == 1
        for about in (
            {"role": "user"}, {"tool": "x"}, {"since": 11}, {"until": 10}, {"archived": True},
            {"image_id": ImageId("other")}, {"session_id": SessionId("other")}, {"text": "hay"},
        ):  # fmt: skip
            assert await found(**about) == 0, about
        for about in ({"since": 10}, {"until": 11}, {"archived": False}, {"session_id": SESSION}):
            assert await found(**about) == 1, about
        elsewhere = store.tenant(ACME).sessions((ContainerId("elsewhere"),))
        assert (await elsewhere.search(MessageSearch(text="needle", now=40))).titles == ()
        await store.tenant(ACME).sessions((ContainerId(HOME),)).delete(SESSION, 50)
        assert await found() == 0


async def test_titles_are_on_the_first_page_alone() -> None:
    async with open_store(None) as store:
        home = await settle(store, image())
        await home.log(SESSION).record(messages=[said(f"m{number}", "needle", number) for number in range(3)], now=10)
        await home.set_title(SESSION, "Needle", now=10)
        first = await mine(store).search(MessageSearch(text="needle", now=40, limit=2))
        second = await mine(store).search(MessageSearch(text="needle", now=40, limit=2, after=first.next))
        assert (len(first.titles), len(second.titles)) == (1, 0)
