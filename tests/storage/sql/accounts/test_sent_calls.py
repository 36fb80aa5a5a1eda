import msgspec
from tests.conformance.ledger import entry
from tests.conformance.records import HOME, IMAGE, SESSION, image, turn
from tests.conformance.store import ACME, RIVAL, settle

from agentvm.model.ids import SessionId, TurnId, UserId
from agentvm.model.ledger import SentCall
from agentvm.storage.base import SessionWrite
from agentvm.storage.sql.store import Store

CALL = SentCall(
    key="m1.1",
    call_id="m1",
    at=5,
    tenant_id=ACME,
    user_id=UserId("alice"),
    container_id=HOME,
    image_id=IMAGE,
    session_id=SESSION,
    turn_id=TurnId("t1"),
    driver="openai",
    model="gpt",
    provider="corp",
    own_key=True,
    hosted=True,
    input_tokens=123,
)


async def test_a_call_is_remembered_as_it_was_asked_until_it_is_entered(store: Store) -> None:
    accounts = store.accounts(ACME)
    await accounts.asked.add(CALL)
    await accounts.asked.add(msgspec.structs.replace(CALL, at=6))
    assert await accounts.asked.of_turn("t1") == (msgspec.structs.replace(CALL, at=6),)
    assert (await accounts.asked.of_turn("t2"), await store.accounts(RIVAL).asked.of_turn("t1")) == ((), ())
    # Another tenant's entry does not settle it.
    await store.accounts(RIVAL).ledger.add([entry("m1", of=RIVAL)], answered=["m1.1"])
    assert len(await accounts.asked.of_turn("t1")) == 1
    assert await accounts.ledger.add([entry("m1")], answered=["m1.1"]) == 1
    assert await accounts.asked.of_turn("t1") == ()


async def test_a_commit_asks_and_settles_also_when_the_session_is_gone_meanwhile(store: Store) -> None:
    await settle(store, image())
    where = {"tenant_id": ACME, "container_id": HOME, "now": 7}
    committed = await store.commit([SessionWrite(session_id=SESSION, asked=[CALL], **where)])  # type: ignore[arg-type]
    assert not committed.gone
    assert await store.accounts(ACME).asked.of_turn("t1") == (CALL,)
    gone = SessionId("gone")
    # Nothing is asked for a session that is gone; what was asked for it is owed all the same.
    other = msgspec.structs.replace(CALL, key="m2.1")
    refused = await store.commit([SessionWrite(session_id=gone, asked=[other], **where)])  # type: ignore[arg-type]
    assert refused.gone == {gone}
    assert await store.accounts(ACME).asked.of_turn("t1") == (CALL,)
    write = SessionWrite(session_id=gone, ledger=[entry("m1")], answered=["m1.1"], **where)  # type: ignore[arg-type]
    assert (await store.commit([write])).gone == {gone}
    assert await store.accounts(ACME).asked.of_turn("t1") == ()
    assert len(await store.accounts(ACME).ledger.list()) == 1


async def test_only_calls_of_no_open_turn_are_left_for_the_start(store: Store) -> None:
    await settle(store, image())
    log = store.tenant(ACME).container(HOME).log(SESSION)
    await log.record(turns=[turn("t1")], now=1)
    for call in (CALL, msgspec.structs.replace(CALL, key="s.1", turn_id=TurnId("summary"))):
        await store.accounts(ACME).asked.add(call)
    assert [call.key for call in await store.list_sent_calls()] == ["s.1"]
    await log.record(turns=[turn("t1", outcome="completed", ended=2)], now=2)
    assert [call.key for call in await store.list_sent_calls()] == ["m1.1", "s.1"]
