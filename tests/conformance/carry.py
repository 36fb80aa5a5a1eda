"""Carry conformance — imports and exports of sessions, on every engine."""

from collections.abc import Iterator
from dataclasses import replace

from msgspec import structs

from agentvm.errors import Conflict
from agentvm.errors.attachment import AttachmentInUse
from agentvm.model.base import record_from
from agentvm.model.ids import ContainerId, MessageId, SessionId, TenantId, TurnId
from agentvm.model.memory import ContainerMemory, MemoryId
from agentvm.model.message import Message, UserMessage
from agentvm.model.schedule import Schedule, ScheduleId, Trigger, TriggerId
from agentvm.storage.attachments import Upload
from agentvm.storage.carry import Attached, Carried, Continued, ExistingSession, Present, SessionContent
from agentvm.storage.sql.attachments import read_all
from agentvm.storage.sql.store import Store
from tests.conformance.attachments import BODY, digest_of, referring
from tests.conformance.records import EVERY_KIND, HOME, SESSION, default_session, image, session, turn
from tests.conformance.store import raises

OURS, THEIRS = TenantId("acme"), TenantId("bolt")
ENDED = turn("turn_1", outcome="completed", ended=2)


def some() -> Iterator[Carried]:
    yield image()
    yield default_session(image())
    yield SessionContent(EVERY_KIND, (ENDED,))


async def check_moves(store: Store) -> None:
    """Imported sessions are read back unchanged, in one tenant and no other."""
    carrier = store.carrier(OURS)
    await carrier.add(some, 7)
    history = await carrier.history(HOME, SESSION)
    assert (history.turns, history.running) == ((ENDED,), frozenset())
    page = await carrier.read(HOME, SESSION, history, 0)
    assert (page.messages, page.next) == (EVERY_KIND, None)
    assert await carrier.measure(HOME) == await carrier.measure(HOME, SESSION) > 100
    assert await carrier.measure(HOME, SessionId("nobody")) == await store.carrier(THEIRS).measure(HOME) == 0
    assert await carrier.existing_images([image().image_id, "free"]) == {image().image_id: HOME}
    assert await store.carrier(THEIRS).existing_images([image().image_id]) == {}
    last = EVERY_KIND[-1].id
    here = await carrier.existing_sessions({SESSION: EVERY_KIND[1].id, "free": None})
    assert here == {SESSION: ExistingSession(HOME, image().image_id, len(EVERY_KIND), 1, last, False, False, 2)}
    assert (await carrier.existing_sessions({SESSION: None}))[SESSION].reached == 0
    assert await store.carrier(THEIRS).existing_sessions({SESSION: None}) == {}
    assert (await store.carrier(THEIRS).history(HOME, SESSION)).last == 0
    found = await store.tenant(OURS).container(HOME).get_image(image().image_id)
    assert found == image()


async def check_pages(store: Store) -> None:
    """Many messages come in pages, without any that is said meanwhile, and without those of turns that still run."""

    def said(number: int, turn_id: TurnId | None = None) -> Message:
        return UserMessage(id=MessageId(f"m{number}"), timestamp=1, turn_id=turn_id, role="user", content="x" * 20_000)

    messages = tuple(said(number) for number in range(700))
    running = turn("turn_2", at=9)
    of_running = said(700, turn_id=TurnId("turn_2"))
    carrier = store.carrier(OURS)
    await carrier.add(
        lambda: iter((image(), default_session(image()), SessionContent((*messages, of_running), (ENDED, running)))), 7
    )
    history = await carrier.history(HOME, SESSION)
    assert (history.turns, history.running) == ((ENDED,), frozenset({TurnId("turn_2")}))
    await store.tenant(OURS).container(HOME).log(SESSION).record(messages=[said(701)], now=9)
    found: list[Message] = []
    pages, after = 0, 0
    while True:
        page = await carrier.read(HOME, SESSION, history, after)
        found += page.messages
        pages += 1
        if page.next is None:
            break
        after = page.next
    assert tuple(found) == messages
    assert pages > 2


async def check_memories_and_schedules_come_along(store: Store) -> None:
    """Behind the sessions: seen with all of it or not at all, once, by its tenant alone."""
    memory = ContainerMemory(container_id=HOME, memory_id=MemoryId("mem_1"), text="tea", by="user", created_at=1, updated_at=1)
    schedule = Schedule(
        schedule_id=ScheduleId("sched_1"), cron="0 9 * * *", zone="UTC", name="n", message="go", container_id=HOME,
        image_id=image().image_id, created_by="a", created_at=1, updated_at=1, disabled_at=3,
    )  # fmt: skip
    trigger = record_from(Trigger, schedule, trigger_id=TriggerId("trig_1"), secret=b"sealed")
    ours = store.tenant(OURS)
    names = {(HOME, "mem_1"), (HOME, "sched_1"), (HOME, "trig_1"), (HOME, "other"), ("elsewhere", "mem_1")}

    async def here() -> tuple[int, int, int]:
        schedules = await ours.schedules(None).list(after=0, limit=9)
        triggers = await ours.triggers((HOME,)).list(after=0, limit=9)
        return len(await ours.container(HOME).memories.list()), len(schedules), len(triggers)

    def failing() -> Iterator[Carried]:
        yield from (*some(), memory, schedule, trigger)
        raise Conflict("the archive ends here")

    assert await raises(Conflict, store.carrier(OURS).add(failing, 7))
    assert (await here(), await store.carrier(OURS).existing_items(names)) == ((0, 0, 0), frozenset())
    await store.carrier(OURS).add(lambda: iter((*some(), memory, schedule, trigger)), 7)
    assert await here() == (1, 1, 1)
    assert (await ours.schedules(None).get("sched_1"), await ours.triggers(None).get("trig_1")) == (schedule, trigger)
    assert await store.carrier(OURS).existing_items(names) == {(HOME, "mem_1"), (HOME, "sched_1"), (HOME, "trig_1")}
    assert await store.carrier(THEIRS).existing_items(names) == frozenset()
    await store.carrier(OURS).add(lambda: iter((memory,)), 8)
    assert await here() == (1, 1, 1)


async def check_files_come_along(store: Store) -> None:
    """Before the messages that refer to them, in the container of the session; bytes that came before need not come again."""
    elsewhere = image("img_9", "elsewhere")
    file = Attached(digest_of(BODY), len(BODY), Upload(media_type="text/plain", name="a.txt"), BODY)
    again = replace(file, body=None)

    def load() -> Iterator[Carried]:
        yield from (image(), default_session(image()), file, SessionContent((referring("m1", BODY),)))
        yield from (elsewhere, default_session(elsewhere), again, SessionContent((referring("m1", BODY),)))

    await store.carrier(OURS).add(load, 7)
    for name in (HOME, ContainerId("elsewhere")):
        files = store.tenant(OURS).container(name).attachments
        found = await files.get(file.digest)
        assert found is not None
        assert (found.media_type, found.name, found.size, found.created_at) == ("text/plain", "a.txt", len(BODY), 7)
        assert await read_all(files, file.digest) == BODY
        assert await raises(AttachmentInUse, files.delete(file.digest))
        assert len(BODY) < await store.carrier(OURS).measure(name) < len(BODY) + 1_000


async def check_all_or_nothing(store: Store) -> None:
    carrier = store.carrier(OURS)
    await carrier.add(some, 7)
    other = image("img_9", "elsewhere")
    refused = False
    try:
        await carrier.add(lambda: iter((other, default_session(other), image(), default_session(image()))), 8)
    except Conflict:
        refused = True
    assert refused
    assert await store.tenant(OURS).list_containers() == (HOME,)
    assert await store.tenant(OURS).find_image(other.image_id) is None
    assert await store.tenant(OURS).container(ContainerId("elsewhere")).get() is None


async def check_continues(store: Store) -> None:
    """An import leaves existing sessions as they are and appends new messages and sessions."""
    carrier, home = store.carrier(OURS), store.tenant(OURS).container(HOME)
    await carrier.add(some, 7)
    new, later = referring("new", BODY), turn("turn_2", outcome="completed", ended=3)
    file = Attached(digest_of(BODY), len(BODY), Upload(media_type="text/plain"), BODY)
    renamed = structs.replace(image(), name="other")
    fresh = session("fresh")

    def load() -> Iterator[Carried]:
        yield Present(renamed)
        yield Continued(default_session(image()), EVERY_KIND[-1].id)
        yield file
        yield SessionContent((new,), (ENDED, later))
        yield fresh
        yield SessionContent((new,))

    await carrier.add(load, 8)
    assert await home.list_messages(SESSION) == (*EVERY_KIND, new)
    assert [one.turn_id for one in await home.log(SESSION).list_turns()] == ["turn_1", "turn_2"]
    assert await home.list_messages(fresh.session_id) == (new,)
    assert await home.get_image(image().image_id) == image()
    found = await store.tenant(OURS).sessions((HOME,)).get(SESSION)
    assert found is not None
    assert found.unread == 0
    assert await read_all(home.attachments, file.digest) == BODY
    assert await raises(AttachmentInUse, home.attachments.delete(file.digest))
    # Somebody has said something since it was looked at, or the image has gone.
    gone = image("gone")
    for records in ((Present(image()), Continued(default_session(image()), EVERY_KIND[-1].id)), (Present(gone),)):
        assert await raises(Conflict, carrier.add(lambda records=records: iter(records), 9))  # type: ignore[misc]
    assert await home.list_messages(SESSION) == (*EVERY_KIND, new)
