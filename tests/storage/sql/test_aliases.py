import pytest
from tests.conformance.records import HOME, image, message, session
from tests.conformance.store import ACME, RIVAL, settle

from agentvm.errors import Conflict, SessionNotFound
from agentvm.model.ids import SessionId
from agentvm.model.session import Alias
from agentvm.storage.sql.aliases import NamedQuery
from agentvm.storage.sql.store import Store

CHAT = Alias("chat", "thread 1")


async def test_a_session_is_found_by_the_name_that_its_creation_gave_it(store: Store) -> None:
    home = await settle(store, image())
    await home.add_session(session("s1"), [message("m1")], alias=CHAT)
    assert await home.aliases.find(CHAT) == "s1"
    assert await home.aliases.of_session("chat", SessionId("s1")) == ("thread 1",)
    assert await home.aliases.find(Alias("other", "thread 1")) is None
    rival = await settle(store, image("img-rival"), tenant=RIVAL)
    assert await rival.aliases.find(CHAT) is None


async def test_a_name_that_is_taken_creates_no_second_session(store: Store) -> None:
    home = await settle(store, image())
    await home.add_session(session("s1"), alias=CHAT)
    with pytest.raises(Conflict):
        await home.add_session(session("s2"), alias=CHAT)
    assert await home.get_session(SessionId("s2")) is None


async def test_the_name_of_a_deleted_session_is_free_again(store: Store) -> None:
    home = await settle(store, image())
    await home.add_session(session("s1"), alias=CHAT)
    await store.tenant(ACME).sessions((HOME,)).delete(SessionId("s1"), 5)
    assert await home.aliases.find(CHAT) is None
    await home.add_session(session("s2"), alias=CHAT)
    assert await home.aliases.find(CHAT) == "s2"


async def test_of_two_who_take_a_name_one_has_it(store: Store) -> None:
    home = await settle(store, image())
    await home.add_session(session("s1"))
    await home.aliases.put(CHAT, SessionId("s1"), 1)
    assert [await home.aliases.take(CHAT) for _ in range(2)] == ["s1", None]


async def test_a_name_can_be_given_to_another_session_and_to_no_missing_one(store: Store) -> None:
    home = await settle(store, image())
    for name in ("s1", "s2"):
        await home.add_session(session(name))
        await home.aliases.put(CHAT, SessionId(name), 1)
    assert await home.aliases.find(CHAT) == "s2"
    with pytest.raises(SessionNotFound):
        await home.aliases.put(CHAT, SessionId("nobody"), 1)


async def test_named_sessions_are_listed_by_their_metadata(store: Store) -> None:
    home = await settle(store, image())
    for number in (1, 2):
        alias = Alias("chat", f"thread {number}")
        await home.add_session(session(f"s{number}"), alias=alias)
        await home.aliases.set_metadata(alias, {"number": number, "flag": True})
    named = await home.aliases.list("chat", NamedQuery(metadata={"number": 2}, limit=9))
    assert [(item.external, item.session_id, item.metadata["number"], item.state) for item in named] == [
        ("thread 2", "s2", 2, "idle")
    ]
    assert await home.aliases.count("chat", NamedQuery(metadata={"flag": True})) == 2
    assert await home.aliases.count("chat", NamedQuery(metadata={"flag": 1})) == 0
    assert await home.aliases.count("chat", NamedQuery(state="running")) == 0
    ordered = await home.aliases.list("chat", NamedQuery(order="created", is_ascending=True, limit=1, offset=1))
    assert [item.external for item in ordered] == ["thread 2"]
