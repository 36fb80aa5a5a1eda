"""What every `Carrier` must do; see `agentvm.storage.carry`."""

from collections.abc import Iterator
from dataclasses import replace

from agentvm.errors import Conflict
from agentvm.errors.attachment import AttachmentInUse
from agentvm.model.ids import ContainerId, MessageId, SessionId, TenantId, TurnId
from agentvm.model.message import Message, UserMessage
from agentvm.storage.attachments import Upload, read_all
from agentvm.storage.base import Store
from agentvm.storage.carry import Attached, Carried, Said
from agentvm.testing.conformance.attachments import BODY, digest_of, referring
from agentvm.testing.conformance.records import EVERY_KIND, HOME, SESSION, default_session, image, turn
from agentvm.testing.conformance.store import raises

OURS, THEIRS = TenantId("acme"), TenantId("bolt")
ENDED = turn("turn_1", outcome="completed", ended=2)


def some() -> Iterator[Carried]:
    yield image()
    yield default_session(image())
    yield Said(EVERY_KIND, (ENDED,))


async def check_moves(store: Store) -> None:
    """What was added is what is read, in one tenant and no other."""
    carrier = store.carrier(OURS)
    await carrier.add(some, 7)
    history = await carrier.history(HOME, SESSION)
    assert (history.turns, history.running) == ((ENDED,), frozenset())
    page = await carrier.read(HOME, SESSION, history, 0)
    assert (page.messages, page.next) == (EVERY_KIND, None)
    assert await carrier.measure(HOME) == await carrier.measure(HOME, SESSION) > 100
    assert await carrier.measure(HOME, SessionId("nobody")) == await store.carrier(THEIRS).measure(HOME) == 0
    assert await carrier.taken([image().image_id, SESSION, "free"]) == {image().image_id, SESSION}
    assert await store.carrier(THEIRS).taken([image().image_id, SESSION]) == frozenset()
    assert (await store.carrier(THEIRS).history(HOME, SESSION)).last == 0
    found = await store.tenant(OURS).container(HOME).get_image(image().image_id)
    assert found == image()


async def check_pages(store: Store) -> None:
    """Many messages come in pages, without any that is said meanwhile, and without those of turns that still run."""

    def said(number: int, **about: TurnId) -> Message:
        return UserMessage(id=MessageId(f"m{number}"), timestamp=1, role="user", content="x" * 20_000, **about)

    messages = tuple(said(number) for number in range(700))
    running = turn("turn_2", at=9)
    of_running = said(700, turn_id=TurnId("turn_2"))
    carrier = store.carrier(OURS)
    await carrier.add(lambda: iter((image(), default_session(image()), Said((*messages, of_running), (ENDED, running)))), 7)
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


async def check_files_come_along(store: Store) -> None:
    """Before the messages that refer to them, in the container of the session; bytes that came before need not come again."""
    elsewhere = image("img_9", "elsewhere")
    file = Attached(digest_of(BODY), len(BODY), Upload(media_type="text/plain", name="a.txt"), BODY)
    again = replace(file, body=None)

    def load() -> Iterator[Carried]:
        yield from (image(), default_session(image()), file, Said((referring("m1", BODY),)))
        yield from (elsewhere, default_session(elsewhere), again, Said((referring("m1", BODY),)))

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


SUITE = (check_moves, check_pages, check_files_come_along, check_all_or_nothing)
