import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.conformance.records import EVERY_KIND, HOME, SESSION, turn
from tests.sessions.histories import ENDED, TENANT, archive, fill, filled, history, put, source, take_in, unpacked

from agentvm.errors import SessionNotFound
from agentvm.model.attachment import reference_to
from agentvm.model.ids import ContainerId, MessageId, SessionId, TurnId
from agentvm.model.message import FilePart, ImagePart, Message, UserMessage
from agentvm.model.session import Session
from agentvm.sessions.export import ExportSource, Selection, export_archive
from agentvm.sessions.line import digest_of
from agentvm.storage.attachments import Upload
from agentvm.storage.carry import Attached, SessionContent
from agentvm.storage.engine import open_store


async def test_an_archive_says_everything_and_nothing_of_the_server() -> None:
    async with filled() as store:
        files = unpacked(await archive(store))
    assert [name for name in files if not name.startswith("blobs/")] == [
        "images.jsonl", "sessions/000001.jsonl", "sessions/000002.jsonl", "sessions/000003.jsonl", "manifest.json",
    ]  # fmt: skip
    manifest = json.loads(files["manifest.json"])
    assert manifest["counts"] == {"images": 2, "sessions": 3, "messages": 7, "turns": 1, "blobs": 1}
    first, *_ = files["images.jsonl"].splitlines()
    # The container that comes first by name.
    assert json.loads(first)["image"]["containerId"] == "away"
    lines = [json.loads(line) for line in files["sessions/000002.jsonl"].splitlines()]
    assert [line["type"] for line in lines] == ["session", "turn", *["message"] * 6]
    assert lines[1]["turn"]["usage"] == {"inputTokens": 1, "outputTokens": 2}
    assert not {"containerId", "sessionId", "imageId", "userId"} & lines[1]["turn"].keys()


async def test_export_import_export_is_the_same_byte_for_byte() -> None:
    async with filled() as store:
        before = await archive(store)
    async with open_store(None) as other:
        assert (await take_in(other, before)).renamed == {}
        assert await archive(other) == before
        home = other.tenant(TENANT).container(HOME)
        assert tuple(await home.list_messages(SESSION)) == EVERY_KIND
        assert await home.log(SESSION).list_turns() == (ENDED,)
        (found,) = [one for one in await home.list_sessions(history()[0].image_id) if one.session_id == "other"]
        assert (found.title, found.pinned_at, found.updated_at) == ("第二", 7, 8)


async def test_one_session_leaves_with_its_image_alone() -> None:
    async with filled() as store:
        body = await archive(store, Selection(HOME, SessionId("other")))
        with pytest.raises(SessionNotFound):
            await archive(store, Selection(HOME, SessionId("nobody's")))
    async with open_store(None) as store:
        await take_in(store, body)
        (image,) = await store.tenant(TENANT).container(HOME).list_images()
        # Its default session is the one that came along.
        assert image.session_id == "other"
        assert await archive(store, Selection(HOME, SessionId("other"))) == body == await archive(store)


async def test_running_turns_and_their_messages_stay() -> None:
    running = turn("turn_2", at=5)
    own = UserMessage(id=MessageId("late"), timestamp=9, role="user", content="wait", turn_id=TurnId("turn_2"))
    async with open_store(None) as store:
        await put(store, *history((*EVERY_KIND, own), (ENDED, running)))
        with_running = await archive(store)
    async with open_store(None) as store:
        await put(store, *history())
        assert await archive(store) == with_running


async def test_a_binary_part_is_stored_once_and_odd_data_stays_as_it_is() -> None:
    parts = (
        ImagePart(data="aGk=", media_type="image/png", name="a"),
        FilePart(data="aGk=", media_type="text/plain", filename="b"),
        ImagePart(data="https://example.com/x.png", media_type="image/png"),
        ImagePart(data="aGk", media_type="image/png"),
        FilePart(data="", media_type="text/plain"),
    )
    messages = [UserMessage(id=MessageId(f"m{n}"), timestamp=1, role="user", content=parts) for n in range(3)]
    async with open_store(None) as store:
        await put(store, *history(messages))
        body = await archive(store)
    blobs = {name: content for name, content in unpacked(body).items() if name.startswith("blobs/")}
    assert list(blobs.values()) == [b"hi"]
    async with open_store(None) as store:
        await take_in(store, body)
        assert list(await store.tenant(TENANT).container(HOME).list_messages(SESSION)) == messages


async def test_an_archive_comes_piece_by_piece(tmp_path: Path) -> None:
    text = "很长 " * 300_000
    messages = [UserMessage(id=MessageId(f"m{n}"), timestamp=1, role="user", content=f"{n}{text}") for n in range(12)]
    async with open_store(tmp_path / "x.db") as store:
        await put(store, *history(messages))
        pieces = [chunk async for chunk in export_archive(source(store), [Selection(HOME)])]
        assert len([piece for piece in pieces if piece]) > 2
        assert await archive(store) == b"".join(pieces)


async def test_nothing_is_an_archive_too() -> None:
    async with open_store(None) as store, open_store(None) as other:
        body = await archive(store, Selection(ContainerId("empty")))
        assert (await take_in(other, body)).counts.images == 0
        await fill(other)


async def test_what_is_monotonous_comes_back_in() -> None:
    messages = [UserMessage(id=MessageId(f"m{n}"), timestamp=1, role="user", content=" " * 4_000_000) for n in range(3)]
    async with open_store(None) as store, open_store(None) as other:
        await put(store, *history(messages))
        body = await archive(store)
        assert len(body) < 12_000_000 / 300
        await take_in(other, body)
        assert await archive(other) == body


async def test_an_archive_is_of_the_oldest_format_that_can_say_it() -> None:
    one, first, said = history()
    file = Attached(digest_of(b"hi there"), 8, Upload(media_type="text/plain"), b"hi there")
    part = FilePart(data=reference_to(file.digest), media_type="text/plain")
    async with open_store(None) as store:
        await put(store, one, first, file, said)
        assert json.loads(unpacked(await archive(store))["manifest.json"])["format"] == 1
        message = UserMessage(id=MessageId("m"), timestamp=1, role="user", content=(part,))
        before = await store.carrier(TENANT).measure(HOME)
        await store.tenant(TENANT).container(HOME).log(SESSION).record(messages=[message], now=2)
        assert await store.carrier(TENANT).measure(HOME) > before + 8 + 50
        files = unpacked(await archive(store))
        assert json.loads(files["manifest.json"])["format"] == 2
        assert files[f"blobs/{file.digest.replace(':', '/')}"] == b"hi there"
        assert b"attachment:" not in files["sessions/000001.jsonl"]


async def test_a_file_that_goes_while_it_is_exported_leaves_no_whole_archive() -> None:
    one, first, _ = history()
    file = Attached(digest_of(b"hi"), 2, Upload(media_type="text/plain"), b"hi")
    message = UserMessage(
        id=MessageId("m"), timestamp=1, role="user", content=(FilePart(data=reference_to(file.digest), media_type="a/b"),)
    )
    async with open_store(None) as store:
        await put(store, one, first, file, SessionContent((message,)))

        class Going(ExportSource):
            async def attached(self, session: Session, page: Sequence[Message]) -> tuple[str, ...]:
                found = await super().attached(session, page)
                await store.tenant(TENANT).container(HOME).delete_image(one.image_id)
                assert [await store.collect(now, grace=0) for now in (10, 11)] == [0, 1]
                return found

        going = Going(store.tenant(TENANT), store.carrier(TENANT))
        with pytest.raises(SessionNotFound):
            _ = [chunk async for chunk in export_archive(going, [Selection(HOME)])]
