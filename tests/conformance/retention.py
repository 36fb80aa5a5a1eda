"""Retention conformance — what the store must do on every engine: what is too old goes, and no more."""

from agentvm.model.ids import MessageId, RewindId, SessionId, TenantId, TurnId
from agentvm.model.ledger import LedgerEntry
from agentvm.model.message import AssistantMessage, Message, TextPart, UserMessage
from agentvm.model.retention import RetentionCutoffs
from agentvm.model.session import STATELESS, Alias
from agentvm.model.turn import Turn
from agentvm.model.usage import Usage
from agentvm.storage.base import LogChunk, Rewinding, SessionWrite
from agentvm.storage.retention import OldTurn, SessionAddress
from agentvm.storage.sessions import MessageSearch, SessionReader
from agentvm.storage.sql.sessions.retention import RetentionStore
from agentvm.storage.sql.store import Store
from tests.conformance.records import HOME, IMAGE, SESSION, image, session
from tests.conformance.store import ACME, RIVAL, settle

ANN = SessionReader("ann")
NEVER = RetentionCutoffs(sessions=None, archived=None, rewound=None, messages=None)
USED = Usage(input_tokens=1, output_tokens=1)


def place(session_id: str) -> SessionAddress:
    return SessionAddress(HOME, SessionId(session_id))


def cut(sessions: int | None = None, archived: int | None = None) -> RetentionCutoffs:
    return RetentionCutoffs(sessions=sessions, archived=archived, rewound=None, messages=None)


def asked(turn_id: str, at: int) -> Message:
    told = f"question {turn_id}"
    return UserMessage(id=MessageId(f"{turn_id}-u"), timestamp=at, turn_id=TurnId(turn_id), role="user", content=told)


def answered(turn_id: str, at: int) -> Message:
    parts = (TextPart(text=f"answer {turn_id}"),)
    return AssistantMessage(
        id=MessageId(f"{turn_id}-a"), timestamp=at, turn_id=TurnId(turn_id), role="assistant", content=parts
    )


def turn_of(session_id: str, turn_id: str, at: int, ended: int | None) -> Turn:
    return Turn(
        turn_id=TurnId(turn_id),
        container_id=HOME,
        image_id=IMAGE,
        session_id=SessionId(session_id),
        message_id=MessageId(f"{turn_id}-u"),
        accepted_at=at,
        outcome=None if ended is None else "completed",
        usage=None if ended is None else USED,
        ended_at=ended,
    )


async def say(
    store: Store, session_id: str, turn_id: str, at: int, *, first_seq: int = 0, ended: bool = True, tenant: TenantId = ACME
) -> None:
    """One turn: a question at a moment and, if it has ended, the answer just after it, told as two events."""
    messages = [asked(turn_id, at), *([answered(turn_id, at + 1)] if ended else [])]
    told = LogChunk(first_seq=first_seq, last_seq=first_seq + 1, made_at=at + 1, body=b"told") if first_seq else None
    bill = LedgerEntry(
        key=f"{turn_id}-a", at=at, tenant_id=tenant, container_id=HOME, image_id=IMAGE, session_id=SessionId(session_id),
        turn_id=TurnId(turn_id), driver="d", model="m", usage=USED, cost=1, price=1,
    )  # fmt: skip
    write = SessionWrite(
        tenant_id=tenant,
        container_id=HOME,
        session_id=SessionId(session_id),
        now=at + 1,
        messages=messages,
        turns=[turn_of(session_id, turn_id, at, at + 1 if ended else None)],
        chunk=told,
        ledger=[bill] if ended else [],
    )
    await store.commit([write])


async def some(store: Store, *names: str, tenant: TenantId = ACME) -> RetentionStore:
    """Sessions besides the default one; each said something, the first at 10, the next at 20, and so on."""
    home = await settle(store, image(), tenant=tenant)
    for number, name in enumerate(names, start=1):
        await home.add_session(session(name, now=1))
        await say(store, name, f"{name}{number}", number * 10, tenant=tenant)
    return store.tenant(tenant).retention()


async def going(kept: RetentionStore, of: RetentionCutoffs) -> list[str]:
    return [one.session.session_id for one in (await kept.expiring(of)).items]


async def left(store: Store, session_id: str, tenant: TenantId = ACME) -> list[str]:
    return [message.id for message in await store.tenant(tenant).container(HOME).list_messages(SessionId(session_id))]


async def check_idle_sessions_go_for_good_and_pinned_ones_stay(store: Store) -> None:
    kept = await some(store, "a", "b", "c", "d")
    mine = store.tenant(ACME).sessions(None)
    await mine.keep(SessionId("b"), pinned=True, now=50)
    assert await going(kept, NEVER) == []
    assert await going(kept, cut(35)) == ["a", "c"]
    assert await going(kept, cut(31)) == ["a"], "what was said at 31 was not said before"
    found = await kept.expiring(cut(35), limit=1)
    assert [one.session.session_id for one in found.items] == ["a"]
    assert (found.items[0].weight.messages, found.items[0].is_default) == (2, False)
    assert found.next is not None
    assert [one.session.session_id for one in (await kept.expiring(cut(35), found.next)).items] == ["c"]
    wanted = [SessionId(name) for name in ("a", "b", "d", SESSION)]
    assert [one.session_id for one in await kept.expire(wanted, cut(35))] == ["a"]
    assert await store.tenant(ACME).find_session(SessionId("a")) is None
    assert await mine.restore(SessionId("a"), 60, deleted_after=-(10**15)) is None
    await kept.revive([SessionId("a"), SessionId("b")])
    assert await mine.get(SessionId("a")) is not None
    await kept.expire([SessionId("a")], cut(35))
    assert await store.purge_sessions(-(10**15)) == ((ACME, "a"),)
    assert await going(kept, cut(35)) == ["c"]


async def check_archived_sessions_go_by_a_moment_of_their_own(store: Store) -> None:
    kept = await some(store, "a", "b", "c")
    await store.tenant(ACME).sessions(None).keep(SessionId("a"), archived=True, now=50)
    assert await going(kept, cut(archived=100)) == ["a"]
    assert await going(kept, cut(sessions=100)) == ["b", "c"]
    assert await going(kept, cut(25, 11)) == ["b"]
    assert await going(kept, cut(25, 12)) == ["a", "b"]


async def check_sessions_whose_client_has_the_history_go_by_a_moment_of_their_own(store: Store) -> None:
    kept = await some(store, "mine", "shown", "pinned", "other")
    home = store.tenant(ACME).container(HOME)
    for name in ("mine", "shown", "pinned", "other"):
        changes = {"archived": name != "shown", "pinned": name == "pinned"}
        await store.tenant(ACME).sessions(None).keep(SessionId(name), **changes, now=20)
        if name != "other":
            await home.aliases.put(Alias(STATELESS, name), SessionId(name), 20)
    old, new = (RetentionCutoffs(sessions=None, archived=None, stateless=at, rewound=None, messages=None) for at in (11, 100))
    assert (await kept.expiring_stateless(old)).items == ()
    assert [one.session.session_id for one in (await kept.expiring_stateless(new)).items] == ["mine"]
    names = tuple(SessionId(name) for name in ("mine", "shown", "pinned", "other"))
    assert [one.session_id for one in await kept.expire(names, new)] == ["mine"]


async def check_a_default_session_is_emptied(store: Store) -> None:
    kept = await some(store)
    home = store.tenant(ACME).container(HOME)
    assert await going(kept, cut(100)) == [], "there is nothing in it"
    await say(store, SESSION, "t1", 10, first_seq=1)
    await home.set_title(SESSION, "About t1", now=12)
    await store.tenant(ACME).sessions(None).mark_read(SESSION, ANN, 13)
    drafts = store.tenant(ACME).drafts("ann", None)
    await drafts.save(SESSION, "", "not sent", 14)
    await drafts.save(SESSION, "phone", "of today", 100)
    (found,) = (await kept.expiring(cut(100))).items
    assert found.is_default
    assert await kept.expire([SESSION], cut(100)) == ()
    assert await kept.clear(SESSION, cut(11), 20) is None, "not that old"
    cleared = await kept.clear(SESSION, cut(100), 20)
    assert cleared is not None
    assert (cleared.title, cleared.preview, cleared.last_message_at) == (None, None, None)
    assert await left(store, SESSION) == []
    assert await home.log(SESSION).list_turns() == ()
    assert [draft.text for draft in await drafts.list(SESSION) or ()] == ["of today"]
    assert await home.log(SESSION).range() == (3, 2), "numbers are not given out again"
    assert await going(kept, cut(100)) == []
    await say(store, SESSION, "t2", 110, first_seq=3)
    listed = await store.tenant(ACME).sessions(None).get(SESSION, ANN)
    assert listed is not None
    assert (listed.unread, listed.session.preview) == (1, "answer t2")


async def check_what_has_no_end_is_left_alone(store: Store) -> None:
    kept = await some(store, "a")
    await say(store, "a", "running", 12, ended=False)
    await say(store, SESSION, "waiting", 12, ended=False)
    old = OldTurn(TurnId("a1"), (MessageId("a1-u"), MessageId("a1-a")), (await kept.rewound(NEVER)))
    assert await going(kept, cut(100, 100)) == []
    assert await kept.expire([SessionId("a")], cut(100)) == ()
    assert await kept.clear(SESSION, cut(100), 200) is None
    assert (await kept.with_old_turns(100)).items == ()
    assert await kept.old_turns(place("a"), 100) == ()
    assert (await kept.drop_turns(place("a"), [old])).messages == 0
    assert await left(store, "a") == ["a1-u", "a1-a", "running-u"]


async def check_turns_go_whole_and_the_session_goes_on(store: Store) -> None:
    kept = await some(store)
    for number, at in enumerate((10, 20, 30)):
        await say(store, SESSION, f"t{number}", at, first_seq=2 * number + 1)
    mine, home = store.tenant(ACME).sessions(None), store.tenant(ACME).container(HOME)
    await mine.mark_read(SESSION, ANN, 40, message_id=MessageId("t1-a"))
    assert (await kept.with_old_turns(10)).items == ()
    assert (await kept.with_old_turns(22)).items == (place(SESSION),)
    assert [turn.turn_id for turn in await kept.old_turns(place(SESSION), 21)] == ["t0"], "the answer came at 21"
    old = await kept.old_turns(place(SESSION), 22)
    assert [(turn.turn_id, turn.message_ids) for turn in old] == [("t0", ("t0-u", "t0-a")), ("t1", ("t1-u", "t1-a"))]
    dropped = await kept.drop_turns(place(SESSION), old)
    assert (dropped.messages, dropped.bytes) == (4, sum(turn.weight.bytes for turn in old))
    assert await left(store, SESSION) == ["t2-u", "t2-a"]
    assert [turn.turn_id for turn in await home.log(SESSION).list_turns()] == ["t2"]
    listed = await mine.get(SESSION, ANN)
    assert listed is not None
    assert (listed.unread, listed.session.preview, listed.session.last_message_at) == (1, "answer t2", 31)
    assert (await mine.search(MessageSearch(text="answer"))).total == 1
    assert await home.log(SESSION).range() == (5, 6)
    assert (await kept.drop_turns(place(SESSION), old)).messages == 0


async def check_turns_that_lie_between_each_other_are_told_apart(store: Store) -> None:
    kept = await some(store)
    log = store.tenant(ACME).container(HOME).log(SESSION)
    said = [asked("t1", 10), asked("t2", 11), answered("t1", 12), answered("t2", 30)]
    await log.record(messages=said, turns=[turn_of(SESSION, "t1", 10, 12), turn_of(SESSION, "t2", 11, 30)], now=30)
    old = await kept.old_turns(place(SESSION), 20)
    assert [turn.message_ids for turn in old] == [("t1-u", "t1-a")]
    await kept.drop_turns(place(SESSION), old)
    assert await left(store, SESSION) == ["t2-u", "t2-a"]


async def check_what_was_taken_back_goes_by_when_that_was(store: Store) -> None:
    kept = await some(store)
    for number, at in enumerate((10, 20, 30)):
        await say(store, SESSION, f"t{number}", at, first_seq=2 * number + 1)
    for number, (turn_id, at) in enumerate((("t2", 40), ("t1", 50))):
        back = Rewinding(RewindId(f"r{number}"), (MessageId(f"{turn_id}-u"), MessageId(f"{turn_id}-a")), at)
        write = SessionWrite(tenant_id=ACME, container_id=HOME, session_id=SESSION, now=at, rewind=back)
        await store.commit([write])
    mine, log = store.tenant(ACME).sessions(None), store.tenant(ACME).container(HOME).log(SESSION)
    assert (await kept.with_rewound(40)).items == ()
    assert (await kept.with_rewound(41)).items == (place(SESSION),)
    assert (await kept.rewound(RetentionCutoffs(sessions=None, archived=None, rewound=41, messages=None))).messages == 2
    assert (await kept.rewound(RetentionCutoffs(sessions=99, archived=None, rewound=41, messages=None))).messages == 0, (
        "all of it goes"
    )
    assert (await kept.drop_rewound(place(SESSION), 41, limit=1)).messages == 1
    assert [message.id for message in await log.get_messages(["t2-u", "t2-a"])] == ["t2-u"], "the last first"
    assert (await kept.drop_rewound(place(SESSION), 41)).messages == 1
    rewinds = await mine.rewinds(SESSION)
    assert rewinds is not None
    assert [(one.rewind_id, one.messages) for one in rewinds] == [("r1", 2)]
    assert await left(store, SESSION) == ["t0-u", "t0-a"]
    assert await log.range() == (7, 6)


async def check_a_tenant_drops_nothing_of_another(store: Store) -> None:
    kept = await some(store, "a")
    theirs = await some(store, "a", tenant=RIVAL)
    await say(store, SESSION, "t1", 10, tenant=RIVAL)
    assert await going(kept, cut(100)) == ["a"]
    assert await going(theirs, cut(100)) == [SESSION, "a"]
    await kept.expire([SessionId("a"), SESSION], cut(100))
    await kept.clear(SESSION, cut(100), 20)
    old = await theirs.old_turns(place(SESSION), 100)
    assert (await kept.drop_turns(place(SESSION), old)).messages == 0
    assert await left(store, SESSION, RIVAL) == ["t1-u", "t1-a"]
    assert await left(store, "a", RIVAL) == ["a1-u", "a1-a"]
    await theirs.expire([SessionId("a")], cut(100))
    await kept.revive([SessionId("a")])
    assert await store.tenant(RIVAL).find_session(SessionId("a")) is None
