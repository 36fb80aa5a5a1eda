"""Log conformance — what the store must do on every engine with commits, logs and the journal."""

from msgspec import structs

from agentvm.errors import SessionNotFound, StoreFailed
from agentvm.model.ids import MessageId, RewindId, SessionId, TurnId
from agentvm.model.message import encode_message
from agentvm.storage.base import LogChunk, Rewinding, SessionWrite
from agentvm.storage.sql.store import Store
from tests.conformance.records import HOME, SESSION, image, message, turn
from tests.conformance.store import ACME, RIVAL, raises, settle

PLENTY_BYTES = 10**9


def chunk(first_seq: int, last_seq: int, *, made_at: int = 5) -> LogChunk:
    return LogChunk(first_seq=first_seq, last_seq=last_seq, made_at=made_at, body=f"{first_seq}-{last_seq}".encode())


def write(session_id: SessionId = SESSION, *, log: LogChunk | None = None, text: str | None = None) -> SessionWrite:
    """A write to a session of the first tenant."""
    messages = () if text is None else (message(text),)
    return SessionWrite(tenant_id=ACME, container_id=HOME, session_id=session_id, now=7, messages=messages, chunk=log)


async def check_a_commit_is_whole_and_passes_over_sessions_that_are_gone(store: Store) -> None:
    home = await settle(store, image())
    gone = SessionId("gone")
    committed = await store.commit([write(gone, text="m0"), write(text="m1", log=chunk(1, 3))], entry=b"one")
    assert (committed.gone, committed.entry > 0) == (frozenset({gone}), True)
    assert await home.list_messages(SESSION) == (message("m1"),)
    assert await home.log(SESSION).read(0, 9) == (chunk(1, 3),)
    assert (await store.commit([write()])).entry == 0


async def check_deltas_change_no_row_of_their_session_or_its_image(store: Store) -> None:
    home = await settle(store, image())
    before = await home.get_session(SESSION), await home.list_images()
    committed = await store.commit([write(), write(SessionId("gone"))], entry=b"deltas")
    assert committed.gone == {"gone"}
    assert (await home.get_session(SESSION), await home.list_images()) == before
    assert [body for _, body in await store.read_journal()] == [b"deltas"]


async def check_a_commit_that_fails_leaves_nothing_behind(store: Store) -> None:
    home = await settle(store, image())
    await store.commit([write(log=chunk(1, 3))], entry=b"one")
    try:
        await store.commit([write(text="m1"), write(log=chunk(2, 3))], entry=b"two", forget=99)
    except StoreFailed:
        pass
    else:
        raise AssertionError("two chunks ended with the same event")
    assert await home.list_messages(SESSION) == ()
    assert [body for _, body in await store.read_journal()] == [b"one"]


async def check_the_log_is_read_from_any_event_on(store: Store) -> None:
    home = await settle(store, image())
    log = home.log(SESSION)
    assert await log.range() == (1, 0)
    for each in (chunk(1, 3), chunk(4, 4), chunk(5, 9)):
        await store.commit([write(log=each)])
    assert await log.range() == (1, 9)
    found = [[each.first_seq for each in await log.read(after, 2)] for after in range(10)]
    assert found == [[1, 4]] * 3 + [[4, 5]] + [[5]] * 5 + [[]]
    assert await raises(SessionNotFound, home.log(SessionId("gone")).range())
    rival = store.tenant(RIVAL).container(HOME).log(SESSION)
    assert await rival.read(0, 9) == ()
    assert await raises(SessionNotFound, rival.range())


async def check_the_end_of_what_was_told_before_a_moment_is_known(store: Store) -> None:
    home = await settle(store, image())
    for each in (chunk(1, 3, made_at=10), chunk(4, 9, made_at=20)):
        await store.commit([write(log=each)])
    log = home.log(SESSION)
    assert [await log.last_before(at) for at in (10, 11, 20, 21)] == [0, 3, 3, 9]
    assert await home.log(SessionId("gone")).last_before(99) == 0
    assert await store.tenant(RIVAL).container(HOME).log(SESSION).last_before(99) == 0


async def check_a_trimmed_log_still_knows_how_far_it_has_counted(store: Store) -> None:
    home = await settle(store, image())
    for each in (chunk(1, 3, made_at=1), chunk(4, 4, made_at=2), chunk(5, 9, made_at=3)):
        await store.commit([write(log=each)])
    assert await store.trim_log(2, PLENTY_BYTES) == 1
    assert await home.log(SESSION).range() == (4, 9)
    assert await store.trim_log(100, PLENTY_BYTES) == 1
    assert await home.log(SESSION).range() == (5, 9)


async def check_a_log_that_is_too_large_loses_its_oldest_part(store: Store) -> None:
    home = await settle(store, image())
    for number in range(1, 6):
        await store.commit([write(log=chunk(number, number, made_at=number))])
    size = len(chunk(1, 1, made_at=1).body)
    assert await store.trim_log(0, 5 * size) == 0
    assert await store.trim_log(0, 2 * size) == 3
    assert await home.log(SESSION).range() == (4, 5)
    assert await store.trim_log(0, 0) == 1
    assert await home.log(SESSION).range() == (5, 5)


async def check_a_session_is_set_aside_and_released(store: Store) -> None:
    home = await settle(store, image())
    assert await store.list_quarantined() == ()
    aside = await home.log(SESSION).set_quarantine("it is poison", 8)
    assert aside is not None
    assert (aside.quarantine, aside.updated_at) == ("it is poison", 8)
    assert await home.get_session(SESSION) == aside
    assert await store.list_quarantined() == ((ACME, aside),)
    released = await home.log(SESSION).set_quarantine(None, 9)
    assert released is not None
    assert released.quarantine is None
    assert await store.list_quarantined() == ()
    assert await home.log(SessionId("gone")).set_quarantine("why", 9) is None
    assert await store.tenant(RIVAL).container(HOME).log(SESSION).set_quarantine("mine", 9) is None
    assert await store.list_quarantined() == ()


async def check_the_journal_keeps_what_is_not_forgotten(store: Store) -> None:
    entries = [(await store.commit([], entry=body)).entry for body in (b"one", b"two", b"three")]
    assert entries == sorted(entries)
    assert await store.read_journal() == tuple(zip(entries, (b"one", b"two", b"three"), strict=True))
    await store.commit([], forget=entries[1])
    assert [body for _, body in await store.read_journal()] == [b"two", b"three"]
    last = (await store.commit([], entry=b"four", forget=entries[2] + 1)).entry
    assert await store.read_journal() == ((last, b"four"),)
    await store.commit([], forget=last + 1)
    assert await store.read_journal() == ()
    # An empty journal may number anew: what is added is not among what is forgotten.
    await store.commit([], entry=b"five", forget=last + 1)
    assert [body for _, body in await store.read_journal()] == [b"five"]


async def check_a_probe_leaves_no_trace(store: Store) -> None:
    await settle(store, image())
    before = await store.commit([write()], entry=b"one")
    await store.probe()
    assert [body for _, body in await store.read_journal()] == [b"one"]
    assert (await store.commit([write()], entry=b"two")).entry > before.entry


async def check_messages_of_a_log_are_found_by_their_ids(store: Store) -> None:
    home = await settle(store, image(), image("img_2"))
    await store.commit([write(text="m1"), write(SessionId("img_2-default"), text="m2")])
    found = await home.log(SESSION).get_messages(["m2", "m1", "m3"])
    assert found == (message("m1"),)


async def check_recent_messages_stop_at_the_byte_budget(store: Store) -> None:
    home = await settle(store, image(), image("other"))
    assert await home.list_recent_messages(SESSION, 1_000_000) == ((), False)
    texts = [message(f"m{number}", "x" * 10_000) for number in range(10)]
    await home.log(SESSION).record(messages=texts, now=2)
    await home.log(SessionId("other-default")).record(messages=[message("m1", "not asked for")], now=2)
    assert await home.list_recent_messages(SESSION, 1_000_000) == (tuple(texts), False)
    assert await home.list_recent_messages(SESSION, 35_000) == (tuple(texts[-3:]), True)
    # The newest is returned whatever its size; a budget of nothing would otherwise show an empty conversation.
    assert await home.list_recent_messages(SESSION, 0) == ((texts[-1],), True)
    await home.log(SESSION).record(messages=[message("large", "x" * 50_000), message("small")], now=3)
    assert await home.list_recent_messages(SESSION, 35_000) == ((message("small"),), True)
    assert await home.list_recent_messages(SESSION, 0, strict=True) == ((), True)
    few, truncated = await home.list_recent_messages(SESSION, 1_000_000, limit=3)
    assert ([one.id for one in few], truncated) == (["m9", "large", "small"], True)
    assert await home.list_recent_messages(SESSION, 1_000_000, strict=True) == (await home.list_messages(SESSION), False)
    assert await home.list_recent_messages(SessionId("gone"), 1_000, strict=True) == ((), False)


async def check_recent_messages_leave_out_those_taken_back(store: Store) -> None:
    home = await settle(store, image())
    await home.log(SESSION).record(messages=[message("m1"), message("m2"), message("m3")], now=2)
    taken = Rewinding(rewind_id=RewindId("r1"), message_ids=[MessageId("m2"), MessageId("m3")], at=3)
    await store.commit([SessionWrite(tenant_id=ACME, container_id=HOME, session_id=SESSION, now=3, rewind=taken)])
    assert await home.list_recent_messages(SESSION, 1_000_000) == ((message("m1"),), False)


async def check_the_journal_is_read_page_by_page(store: Store) -> None:
    entries = [(await store.commit([], entry=body)).entry for body in (b"1" * 100, b"2" * 100, b"3" * 100)]
    found = await store.read_journal(0, 200)
    assert [entry for entry, _ in found] == entries[:2]
    # At least one, however large it is: whoever reads on must get on.
    assert [entry for entry, _ in await store.read_journal(entries[0], 10)] == entries[1:2]
    assert await store.read_journal(entries[-1], 10) == ()


async def check_the_messages_of_one_turn_are_found(store: Store) -> None:
    home = await settle(store, image())
    texts = [("m0", "t0"), ("m1", "t1"), ("m2", "t2"), ("m3", "t1"), ("m4", "t2")]
    said = [structs.replace(message(name, "x" * 1_000), turn_id=TurnId(of)) for name, of in texts]
    log = home.log(SESSION)
    await log.record(messages=said, turns=[turn("t1")], now=2)
    assert await log.list_turn_messages(turn("t1"), 10**6) == ((said[1], said[3]), False)
    found, truncated = await log.list_turn_messages(turn("t1"), 1_500)
    assert (found, truncated) == ((said[1],), True)
    assert await log.list_turn_messages(turn("t1"), 10) == ((), True)
    assert await log.list_turn_messages(structs.replace(turn("t9"), message_id=MessageId("gone")), 10**6) == ((), False)
    assert await log.message_sizes(["m1", "gone"]) == {"m1": len(encode_message(said[1]))}


async def check_how_many_turns_were_begun_together_is_kept_until_the_turn_has_ended(store: Store) -> None:
    home = await settle(store, image())
    log = home.log(SESSION)
    await log.record(turns=[turn("t1")], now=2)
    await log.record(turns=[structs.replace(turn("t1"), attempts=3, alongside=4)], now=3)
    await log.record(turns=[structs.replace(turn("t1"), attempts=3)], now=4)
    assert await store.list_unfinished() == ((ACME, structs.replace(turn("t1"), attempts=3, alongside=4)),)


async def check_turns_without_an_end_are_listed_in_the_order_they_were_accepted(store: Store) -> None:
    home = await settle(store, image())
    begun = [structs.replace(turn(name, at=at), client_key=f"key {name}") for name, at in (("t2", 9), ("t1", 5))]
    await home.log(SESSION).record(turns=[*begun, turn("t3")], now=2)
    await home.log(SESSION).record(turns=[turn("t3", outcome="failed"), structs.replace(begun[0], attempts=2)], now=3)
    assert await store.list_unfinished() == ((ACME, structs.replace(begun[0], attempts=2)), (ACME, begun[1]))
    assert await home.log(SESSION).find_turn("key t1") == begun[1]
    assert await home.log(SESSION).find_turn("key t9") is None
    assert await store.tenant(RIVAL).container(HOME).log(SESSION).find_turn("key t1") is None
