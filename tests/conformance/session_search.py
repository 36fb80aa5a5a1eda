"""Session search conformance — what a search over what was said must find, in which order, and who must not find it."""

from typing import Any

from agentvm.errors import InvalidInput
from agentvm.model.ids import ContainerId, ImageId, MessageId, SessionId
from agentvm.model.message import TextOutput, ToolResult, ToolResultMessage
from agentvm.storage.sessions import FoundPage, MessageSearch
from agentvm.storage.sql.sessions import SessionStore
from agentvm.storage.sql.store import Store
from tests.conformance.records import EVERY_KIND, HOME, SESSION, image, session
from tests.conformance.sessions import answered, mine, said
from tests.conformance.store import ACME, ODD, RIVAL, raises, settle

DAY_MS = 86_400_000


async def ask(sessions: SessionStore, text: str, **about: Any) -> FoundPage:
    return await sessions.search(MessageSearch(text=text, **about))


async def ids(sessions: SessionStore, text: str, **about: Any) -> list[str]:
    return [item.message_id for item in (await ask(sessions, text, **about)).items]


async def check_words_are_found_as_people_write_them(store: Store) -> None:
    home = await settle(store, image())
    text = "Our Café deployed 北京烤鸭 to Straße customers; it's snake_case 用Python写."
    await home.log(SESSION).record(messages=[said("1", text)], now=2)
    sessions = mine(store)
    for asked in (
        "cafe", "CAFÉ", "deploy", "北京", "烤鸭", "京烤", "strasse", "case", "it's", "python", "用python写",
        "to our 北京", "鸭",
    ):  # fmt: skip
        assert await ids(sessions, asked) == ["1"], asked
    for asked in ("afe", "京北", "北鸭", "our absent", "ca", "", "  ", "!?", "“”"):
        assert await ids(sessions, asked) == [], asked


async def check_what_is_typed_is_never_syntax(store: Store) -> None:
    home = await settle(store, image())
    await home.log(SESSION).record(messages=[said("1", "one two")], now=2)
    for asked in ("one OR three", 'one" OR "x', "one NOT two", "text : one", "NEAR(one two)", "one*two", "^one -", *ODD, "\0"):
        assert await ids(mine(store), asked) in ([], ["1"]), asked


async def check_a_hit_leads_to_its_message(store: Store) -> None:
    home = await settle(store, image())
    await home.set_title(SESSION, "Trip", now=2)
    told = [
        said("1", "where to?", 10),
        answered("2", "a", 11),
        said("3", "the needle & <b>hay</b>", 12),
        answered("4", "ok", 13),
    ]
    await home.log(SESSION).record(messages=told, now=13)
    page = await ask(mine(store), "needle hay", now=20)
    (hit,) = page.items
    assert (page.total, page.capped, page.next) == (1, False, None)
    assert (hit.session.session_id, hit.session.title, hit.message_id, hit.position) == (SESSION, "Trip", "3", 2)
    assert (hit.role, hit.tool, hit.at, hit.before, hit.after) == ("user", None, 12, "a", "ok")
    assert hit.snippet == "the <mark>needle</mark> &amp; &lt;b&gt;<mark>hay</mark>&lt;/b&gt;"


async def check_a_search_is_narrowed(store: Store) -> None:
    home = await settle(store, image(), image("other"))
    await home.add_session(session("b"))
    result = ToolResult(id="c", name="weather", output=TextOutput(value="same sun"))
    told = ToolResultMessage(id=MessageId("t"), timestamp=30, role="tool", tool_call_id="c", tool_result=result)
    await home.log(SESSION).record(messages=[said("u", "same", 10), answered("a", "same", 20), told], now=30)
    await home.log(SessionId("b")).record(messages=[said("b", "same", 40)], now=40)
    await home.log(SessionId("other-default")).record(messages=[said("o", "same", 50)], now=50)
    sessions = mine(store)

    async def found(**about: Any) -> str:
        return "".join(sorted(await ids(sessions, "same", **about)))

    assert await found() == "abotu"
    assert [await found(role=role) for role in ("user", "assistant", "tool")] == ["bou", "a", "t"]
    assert await found(tool="weather") == "t"
    assert await found(tool="other") == ""
    assert await found(session_id=SESSION) == "atu"
    assert await found(image_id=ImageId("other")) == "o"
    assert await found(since=20, until=50) == "abt"
    await sessions.keep(SessionId("b"), archived=True, now=60)
    assert await found(archived=False) == "aotu"
    assert await found(archived=True) == "b"


async def check_only_what_was_said_is_found(store: Store) -> None:
    """Thoughts of a model, arguments of tools and errors are not found."""
    home = await settle(store, image())
    await home.log(SESSION).record(messages=EVERY_KIND, now=2)
    for asked, expected in (("see", ["2"]), ("yes", ["3"]), ("no", ["5"]), ("北京", ["1"])):
        assert await ids(mine(store), asked) == expected, asked
    for asked in ("hm", "down", "timeout", "deep", "aGk"):
        assert await ids(mine(store), asked) == [], asked


async def check_the_best_come_first_and_of_equals_the_newest(store: Store) -> None:
    home = await settle(store, image())
    filler = "about other things at length " * 5
    told = [said("long", f"needle {filler}", 9 * DAY_MS), said("short", "needle", 9 * DAY_MS), said("none", filler, 9 * DAY_MS)]
    old = [said(f"old{number}", "needle pin", 1) for number in range(2)]
    new = [said(f"new{number}", "needle pin", 400 * DAY_MS) for number in range(2)]
    await home.log(SESSION).record(messages=[*old, *told, *new], now=2)
    found = await ids(mine(store), "needle", now=400 * DAY_MS)
    assert found.index("short") < found.index("long")
    assert [name for name in found if name[:3] in ("old", "new")] == ["new1", "new0", "old1", "old0"]


async def check_pages_hold_each_hit_once(store: Store) -> None:
    home = await settle(store, image())
    await home.log(SESSION).record(messages=[said(f"m{n}", "needle " + "x " * n, n) for n in range(9)], now=9)
    sessions = mine(store)
    whole = await ids(sessions, "needle", limit=50, now=100)
    found: list[str] = []
    after = None
    while True:
        page = await ask(sessions, "needle", limit=2, after=after, now=100 + len(found) * DAY_MS)
        found += [item.message_id for item in page.items]
        assert page.total == 9
        if (after := page.next) is None:
            break
    assert found == whole
    assert len(whole) == 9
    for wrong in ("", "x", "WzFd", *ODD):
        assert await raises(InvalidInput, ask(sessions, "needle", after=wrong)), wrong


async def check_nobody_finds_what_others_have_said(store: Store) -> None:
    homes = [
        (ACME, HOME, await settle(store, image())),
        (ACME, "b", await settle(store, image("two", "b"), container="b")),
        (RIVAL, HOME, await settle(store, image(), tenant=RIVAL)),
    ]
    for number, (_, container, home) in enumerate(homes):
        default = SessionId("two-default") if container == "b" else SESSION
        await home.log(default).record(messages=[said(f"m{number}", f"secret {number}")], now=2)
    for number, (tenant, container, _) in enumerate(homes):
        assert await ids(store.tenant(tenant).sessions([ContainerId(container)]), "secret") == [f"m{number}"]
    assert sorted(await ids(store.tenant(ACME).sessions(None), "secret")) == ["m0", "m1"]
    assert await ids(store.tenant(ACME).sessions([]), "secret") == []
    assert await ids(store.tenant(RIVAL).sessions(None), "secret") == ["m2"]
    assert await ids(store.tenant(RIVAL).sessions([ContainerId("b")]), "secret") == []


async def check_what_is_deleted_is_not_found(store: Store) -> None:
    home = await settle(store, image(), image("other"))
    await home.add_session(session("a"))
    await home.log(SessionId("a")).record(messages=[said("1", "needle")], now=2)
    await home.log(SessionId("other-default")).record(messages=[said("2", "needle")], now=2)
    sessions = mine(store)
    await sessions.delete(SessionId("a"), 5)
    assert await ids(sessions, "needle") == ["2"]
    await sessions.restore(SessionId("a"), 6, deleted_after=0)
    assert sorted(await ids(sessions, "needle")) == ["1", "2"]
    await home.delete_image(ImageId("other"))
    assert await ids(sessions, "needle") == ["1"]
    await sessions.delete(SessionId("a"), 7)
    await store.purge_sessions(7)
    assert await ids(sessions, "needle") == []


async def check_titles_are_found_beside_what_was_said(store: Store) -> None:
    home = await settle(store, image())
    await home.add_session(session("a"))
    await home.log(SESSION).record(messages=[said("1", "the needle")], now=2)
    await home.set_title(SessionId("a"), "A needle & hay", now=3)
    page = await ask(mine(store), "needle", now=20)
    assert ([item.message_id for item in page.items], page.total) == (["1"], 1)
    assert [(one.session.session_id, one.snippet) for one in page.titles] == [("a", "A <mark>needle</mark> &amp; hay")]
    assert (await ask(mine(store), "needle", role="user", now=20)).titles == ()
    await mine(store).delete(SessionId("a"), 5)
    assert (await ask(mine(store), "needle", now=20)).titles == ()


async def check_tending_changes_nothing_of_what_is_found(store: Store) -> None:
    home = await settle(store, image())
    for number in range(10):
        await home.log(SESSION).record(messages=[said(f"m{number}", f"needle {number}", number)], now=2)
    before = await ids(mine(store), "needle", now=100)
    for _ in range(100):
        if not await store.tend_search():
            break
    else:
        raise AssertionError("there is always more to do")
    assert await ids(mine(store), "needle", now=100) == before
