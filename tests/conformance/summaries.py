"""Summary conformance — summaries are recalled with the messages they do not cover, and deleted with those they do."""

from collections.abc import Sequence

from msgspec import structs

from agentvm.model.exchange import Extent, extent
from agentvm.model.ids import MessageId, RewindId, SessionId, SummaryId, TurnId, UserId
from agentvm.model.message import AssistantMessage, Message, TextPart, UserMessage, encode_message
from agentvm.model.session import RefusedPart, Summary
from agentvm.storage.base import ReadingLimits, Recalled, Rewinding, SessionWrite
from agentvm.storage.retention import SessionAddress
from agentvm.storage.sessions import MessageSearch
from agentvm.storage.sql.container import ContainerStore
from agentvm.storage.sql.log import LogStore
from agentvm.storage.sql.store import Store
from tests.conformance.records import HOME, SESSION, image, message, session, turn
from tests.conformance.store import ACME, RIVAL, settle


def asked(number: int) -> Message:
    turn_id = TurnId(f"t{number}")
    return UserMessage(id=MessageId(f"q{number}"), timestamp=number, turn_id=turn_id, role="user", content=f"question {number}")


def answered(number: int) -> Message:
    content = (TextPart(text=f"answer {number}"),)
    turn_id = TurnId(f"t{number}")
    return AssistantMessage(id=MessageId(f"a{number}"), timestamp=number, turn_id=turn_id, role="assistant", content=content)


def exchanges(*numbers: int) -> list[Message]:
    return [message for number in numbers for message in (asked(number), answered(number))]


def summary(name: str, covered: Extent) -> Summary:
    """With everything that a summary may have."""
    return Summary(
        summary_id=SummaryId(name),
        message_id=covered.message_id,
        text=f"北京 🦀 {name}",
        tokens=7,
        model="echo/x",
        made_at=9,
        user_id=UserId("ann"),
    )


async def filled(store: Store, messages: Sequence[Message]) -> LogStore:
    home = await settle(store, image())
    log = home.log(SESSION)
    await log.record(messages=messages, now=2)
    return log


async def sum_up(log: LogStore, name: str, count: int, recalled: Recalled | None = None) -> bool:
    """Stores a summary of the first exchanges that have none, as they were recalled then, or are now."""
    recalled = recalled or await log.recall()
    covered = extent(recalled.messages, count)
    assert covered is not None
    return await log.add_summary(summary(name, covered), covered, recalled)


async def take_back(store: Store, name: str, *message_ids: str) -> None:
    rewind = Rewinding(RewindId(name), [MessageId(one) for one in message_ids], 5)
    await store.commit([SessionWrite(tenant_id=ACME, container_id=HOME, session_id=SESSION, now=5, rewind=rewind)])


async def told(log: LogStore) -> tuple[str | None, list[str]]:
    """The summary and the messages that a model is told of."""
    recalled = await log.recall()
    newest = None if recalled.summary is None else recalled.summary.summary_id
    return newest, [message.id for message in recalled.messages]


async def listed(store: Store, session_id: SessionId = SESSION) -> list[str] | None:
    found = await store.tenant(ACME).sessions([HOME]).summaries(session_id)
    return None if found is None else [one.summary_id for one in found]


async def check_without_a_summary_all_is_recalled(store: Store) -> None:
    log = await filled(store, exchanges(1, 2))
    await log.record(turns=[turn("t1", outcome="completed", ended=3), turn("t2")], now=3)
    recalled = await log.recall()
    assert recalled.summary is None
    assert list(recalled.messages) == exchanges(1, 2)
    assert recalled.running == {"t2"}
    assert await listed(store) == []
    gone = store.tenant(ACME).container(HOME).log(SessionId("gone"))
    assert await gone.recall() == Recalled()
    assert await listed(store, SessionId("gone")) is None


async def check_no_more_is_recalled_than_is_allowed(store: Store) -> None:
    log = await filled(store, exchanges(1, 2, 3, 4))
    size = max(len(encode_message(message)) for message in exchanges(1, 2, 3, 4))

    async def ids(reading: ReadingLimits) -> tuple[list[str], bool]:
        recalled = await log.recall(reading)
        return [message.id for message in recalled.messages], recalled.truncated

    assert await ids(ReadingLimits(max_bytes=8 * size)) == (["q1", "a1", "q2", "a2", "q3", "a3", "q4", "a4"], False)
    assert await ids(ReadingLimits(max_bytes=3 * size)) == (["a3", "q4", "a4"], True)
    assert await ids(ReadingLimits(max_bytes=3 * size, newest=False)) == (["q1", "a1", "q2"], True)
    assert await ids(ReadingLimits(max_bytes=10)) == ([], True)
    # What a turn has done about a message is there whole, if there is room for that.
    assert await ids(ReadingLimits(max_bytes=size, current=MessageId("q3"), current_bytes=4 * size)) == (
        ["q3", "a3", "q4", "a4"],
        True,
    )
    assert await ids(ReadingLimits(max_bytes=size, current=MessageId("q3"), current_bytes=2 * size)) == (["q4", "a4"], True)
    # What waits behind it is nothing to it, however large it is.
    open_turns = [structs.replace(turn(f"t{number}"), message_id=MessageId(f"q{number}")) for number in (2, 3, 4)]
    await log.record(turns=open_turns, now=3)
    found, truncated = await ids(ReadingLimits(max_bytes=size, current=MessageId("q3"), current_bytes=3 * size))
    assert (found, truncated) == (["q3", "a3", "a4"], True)
    # One before it that has no end, because the disk refused it, was said all the same.
    found, _ = await ids(ReadingLimits(max_bytes=8 * size, current=MessageId("q3")))
    assert found == ["q1", "a1", "q2", "a2", "q3", "a3", "a4"]


async def check_a_recall_without_summaries_has_what_they_cover(store: Store) -> None:
    log = await filled(store, exchanges(1, 2, 3))
    assert await sum_up(log, "s1", 2)
    recalled = await log.recall(ReadingLimits(max_bytes=10**6, summary=False))
    assert (recalled.summary, list(recalled.messages)) == (None, exchanges(1, 2, 3))
    recalled = await log.recall(ReadingLimits(max_bytes=10))
    assert (recalled.summary is not None, recalled.messages, recalled.truncated) == (True, (), True)


async def check_what_a_provider_refuses_is_noted_once_and_of_one_session(store: Store) -> None:
    log = await filled(store, exchanges(1))
    parts = (RefusedPart(MessageId("q1"), 0), RefusedPart(MessageId("q1"), 3), RefusedPart(MessageId("a1")))
    await log.add_refused(parts, "echo", 3)
    await log.add_refused(parts[:1], "other", 4)
    assert (await log.recall()).refused == frozenset(parts)
    theirs = store.tenant(RIVAL).container(HOME).log(SESSION)
    await theirs.add_refused(parts, "echo", 3)
    assert await theirs.recall() == Recalled()


async def check_a_summary_comes_back_as_it_was_with_what_it_does_not_cover(store: Store) -> None:
    log = await filled(store, exchanges(1, 2, 3))
    recalled = await log.recall()
    covered = extent(recalled.messages, 2)
    assert covered is not None
    assert await log.add_summary(summary("s1", covered), covered, recalled)
    again = await log.recall()
    assert again.summary == summary("s1", covered)
    assert list(again.messages) == exchanges(3)
    assert await store.tenant(ACME).sessions([HOME]).summaries(SESSION) == (summary("s1", covered),)
    # Nothing of the history is lost, or another.
    assert list(await store.tenant(ACME).container(HOME).list_messages(SESSION)) == exchanges(1, 2, 3)
    await log.record(messages=exchanges(4), now=4)
    assert await told(log) == ("s1", ["q3", "a3", "q4", "a4"])
    assert await sum_up(log, "s2", 1)
    assert await told(log) == ("s2", ["q4", "a4"])
    assert await listed(store) == ["s2", "s1"]


async def check_a_nul_in_a_text_is_replaced_and_in_a_message_kept(store: Store) -> None:
    """Clients see U+FFFD for U+0000 in titles, previews, drafts and summaries; a message comes back as it was."""
    log = await filled(store, [*exchanges(1), message("m9", "heron\0bittern")])
    recalled = await log.recall()
    assert recalled.messages[-1] == message("m9", "heron\0bittern")
    covered = extent(recalled.messages, 1)
    assert covered is not None
    written = structs.replace(summary("s1", covered), text="e\0f")
    assert await log.add_summary(written, covered, recalled)
    assert (await log.recall()).summary == structs.replace(written, text="e\ufffdf")
    tenant = store.tenant(ACME)
    titled = await tenant.container(HOME).set_title(SESSION, "a\0b", 3)
    assert titled is not None
    assert (titled.title, titled.preview) == ("a\ufffdb", "heron\ufffdbittern")
    saved = await tenant.drafts("", [HOME]).save(SESSION, "", "c\0d", 4)
    assert saved is not None
    assert saved.draft is not None
    assert saved.draft.text == "c\ufffdd"
    for text in ("heron", "bittern", "heron\0bittern"):
        assert (await tenant.sessions(None).search(MessageSearch(text=text))).total == 1


async def check_a_message_that_was_queued_is_not_covered_by_the_turn_ahead(store: Store) -> None:
    log = await filled(store, [asked(1), asked(2), asked(3), answered(1), answered(2), answered(3)])
    assert await sum_up(log, "s1", 1)
    assert await told(log) == ("s1", ["q2", "q3", "a2", "a3"])
    assert await sum_up(log, "s2", 1)
    assert await told(log) == ("s2", ["q3", "a3"])
    await log.record(messages=exchanges(4), now=4)
    assert await sum_up(log, "s3", 1)
    assert await told(log) == ("s3", ["q4", "a4"])


async def check_a_rewind_takes_the_summaries_of_what_it_takes_back(store: Store) -> None:
    log = await filled(store, exchanges(1, 2, 3, 4))
    assert await sum_up(log, "s1", 1)
    assert await sum_up(log, "s2", 2)
    await take_back(store, "r1", "q4", "a4")
    assert await told(log) == ("s2", [])
    await take_back(store, "r2", "a3")
    assert await told(log) == ("s1", ["q2", "a2", "q3"])
    assert await listed(store) == ["s1"]
    await take_back(store, "r3", "q2", "a2", "q3", "a1")
    assert await told(log) == (None, ["q1"])
    assert await listed(store) == []


async def check_none_is_stored_of_what_was_taken_back_meanwhile(store: Store) -> None:
    log = await filled(store, exchanges(1, 2, 3, 4))
    before = await log.recall()
    await take_back(store, "r1", "q4", "a4")
    await log.record(messages=exchanges(5), now=6)
    # What it covers still stands.
    assert await sum_up(log, "s1", 2, before)
    assert await told(log) == ("s1", ["q3", "a3", "q5", "a5"])
    before = await log.recall()
    await take_back(store, "r2", "a3", "q5", "a5")
    assert not await sum_up(log, "s2", 1, before)
    assert await told(log) == ("s1", ["q3"])


async def check_none_is_stored_of_what_was_too_old_meanwhile(store: Store) -> None:
    """A summary of deleted messages is not stored."""
    log = await filled(store, exchanges(1, 2, 3, 4))
    await log.record(turns=[turn(f"t{number}", outcome="completed", ended=number) for number in (1, 2, 3, 4)], now=4)
    before = await log.recall()
    retention, place = store.tenant(ACME).retention(), SessionAddress(HOME, SESSION)
    assert (await retention.drop_turns(place, await retention.old_turns(place, 2))).messages == 2
    assert not await sum_up(log, "s1", 2, before)
    assert await told(log) == (None, ["q2", "a2", "q3", "a3", "q4", "a4"])
    assert await listed(store) == []
    assert await sum_up(log, "s2", 2)
    # Also of what lies behind a summary.
    before = await log.recall()
    assert (await retention.drop_turns(place, await retention.old_turns(place, 4))).messages == 4
    assert not await sum_up(log, "s3", 1, Recalled(messages=(*before.messages, *exchanges(5))))
    assert await listed(store) == []


async def check_what_is_said_in_the_place_of_what_is_gone_is_told(store: Store) -> None:
    """Also where everything that was said after a summary has gone, here and elsewhere."""
    log = await filled(store, exchanges(1, 2))
    home = store.tenant(ACME).container(HOME)
    await home.add_session(session("b"), exchanges(7, 8, 9))
    await log.record(messages=exchanges(3), now=3)
    assert await sum_up(log, "s1", 2)
    await take_back(store, "r1", "q3", "a3")
    retention, place = store.tenant(ACME).retention(), SessionAddress(HOME, SESSION)
    assert (await retention.drop_rewound(place, 6)).messages == 2
    await store.tenant(ACME).sessions([HOME]).delete(SessionId("b"), 7)
    assert await store.purge_sessions(7) == ((ACME, "b"),)
    await log.record(messages=exchanges(5), now=8)
    assert await told(log) == ("s1", ["q5", "a5"])


async def check_of_two_at_the_same_time_one_is_stored(store: Store) -> None:
    log = await filled(store, exchanges(1, 2, 3, 4))
    before = await log.recall()
    assert await sum_up(log, "s1", 1, before)
    assert not await sum_up(log, "s2", 2, before)
    assert await told(log) == ("s1", ["q2", "a2", "q3", "a3", "q4", "a4"])


async def check_a_session_that_is_deleted_or_gone_takes_none(store: Store) -> None:
    home = await settle(store, image())
    await home.add_session(session("a"))
    log = home.log(SessionId("a"))
    await log.record(messages=exchanges(1, 2, 3), now=2)
    assert await sum_up(log, "s1", 1)
    before = await log.recall()
    sessions = store.tenant(ACME).sessions([HOME])
    await sessions.delete(SessionId("a"), 5)
    assert not await sum_up(log, "s2", 1, before)
    assert await sessions.summaries(SessionId("a")) is None
    assert await sessions.restore(SessionId("a"), 6, deleted_after=0) is not None
    assert await listed(store, SessionId("a")) == ["s1"]
    await sessions.delete(SessionId("a"), 7)
    assert await store.purge_sessions(7) == ((ACME, "a"),)
    assert not await sum_up(log, "s3", 1, before)
    assert await log.recall() == Recalled()


async def check_summaries_of_others_are_not_there(store: Store) -> None:
    log = await filled(store, exchanges(1, 2))
    assert await sum_up(log, "s1", 1)
    theirs: ContainerStore = await settle(store, image(), tenant=RIVAL)
    assert await theirs.log(SESSION).recall() == Recalled()
    assert await store.tenant(RIVAL).sessions(None).summaries(SESSION) == ()
    assert await store.tenant(ACME).sessions([]).summaries(SESSION) is None
    before = await log.recall()
    covered = Extent(message_id=MessageId("a2"), last=MessageId("a2"), next=MessageId("a2"))
    assert not await theirs.log(SESSION).add_summary(summary("s2", covered), covered, before)
