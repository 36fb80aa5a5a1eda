"""What an archive must be; whoever sends another is told where it is wrong, and nothing of it is written."""

import io
import json
import stat
import zipfile
from collections.abc import Callable
from hashlib import sha256
from random import Random
from typing import Any

import pytest
from tests.conformance.records import HOME
from tests.sessions.histories import (
    TENANT,
    Change,
    Files,
    archive,
    changed,
    count_rows,
    edit,
    filled,
    history,
    packed,
    put,
    take_in,
    unpacked,
)

from agentvm.errors import Unprocessable
from agentvm.errors.archive import ArchiveInvalid, ArchiveTooLarge
from agentvm.model.attachment import reference_to
from agentvm.model.ids import ContainerId, MessageId
from agentvm.model.message import FilePart, UserMessage
from agentvm.sessions import archive as archive_module
from agentvm.sessions import bounds, reading
from agentvm.sessions.bounds import MAX_IMPORT_BYTES
from agentvm.sessions.line import digest_of
from agentvm.sessions.reading import read_archive
from agentvm.sessions.spool import Spool
from agentvm.storage.attachments import Upload
from agentvm.storage.carry import Attached, SessionContent
from agentvm.storage.engine import open_store
from agentvm.storage.sql.attachments import read_all

FIRST, SECOND = "sessions/000001.jsonl", "sessions/000002.jsonl"


@pytest.fixture
async def good(anyio_backend: str) -> bytes:
    async with filled() as store:
        return await archive(store)


def refusal(body: bytes, most_bytes: int = MAX_IMPORT_BYTES) -> Unprocessable:
    with Spool() as spool, pytest.raises((ArchiveInvalid, ArchiveTooLarge)) as caught:
        read_archive(io.BytesIO(body), spool, most_bytes=most_bytes)
    return caught.value


def member(name: str, number: int, kind: str, **members: object) -> Change:
    def change(files: Files, manifest: dict[str, Any]) -> None:
        edit(files, name, number, lambda record: record[kind].update(members))

    return change


def lines(name: str, change: Callable[[list[bytes]], list[bytes]]) -> Change:
    def work(files: Files, manifest: dict[str, Any]) -> None:
        files[name] = b"".join(change(files[name].splitlines(keepends=True)))

    return work


def manifest_of(**members: object) -> Change:
    return lambda files, manifest: manifest.update(members)


def more_files(**added: bytes) -> Change:
    return lambda files, manifest: files.update({name.replace("__", "/"): body for name, body in added.items()})


def deep(levels: int) -> bytes:
    return b'{"type":"message","message":' + b'{"a":' * levels + b"1" + b"}" * levels + b"}\n"


def wide(values: int) -> bytes:
    return b'{"type":"message","message":{"a":[' + b"[]," * values + b"[]]}}\n"


BAD: list[tuple[Change, str, dict[str, object]]] = [
    (member("images.jsonl", 1, "image", digest="sha256:0"), "digest", {"line": 1, "member": "image.digest"}),
    (member("images.jsonl", 2, "image", containerId="../etc"), "containerId", {"file": SECOND, "line": 1}),
    (member("images.jsonl", 1, "image", imageId="a/b"), "is not a valid id", {"file": "images.jsonl", "line": 1}),
    (member("images.jsonl", 1, "image", surprise=1), "surprise", {"file": "images.jsonl", "line": 1, "member": "surprise"}),
    (member("images.jsonl", 1, "image", createdAt=-1), "not a valid time", {"file": "images.jsonl", "line": 1}),
    (member("images.jsonl", 1, "image", createdAt="x"), "createdAt", {"file": "images.jsonl", "line": 1}),
    (member("images.jsonl", 2, "image", sessionId="gone"), "default session gone", {"file": "images.jsonl"}),
    (member(FIRST, 1, "session", imageId="gone"), "is not in images.jsonl", {"file": FIRST, "line": 1}),
    (member(FIRST, 1, "session", imageId=7), "imageId is missing", {"file": FIRST, "line": 1}),
    (member(FIRST, 1, "session", sessionId="other", imageId="img_1"), "two sessions", {"line": 1}),
    (member(FIRST, 1, "session", containerId="c"), "does not belong", {"file": FIRST, "line": 1}),
    (member(SECOND, 2, "turn", outcome=None), "", {"file": SECOND, "line": 2}),
    (member(SECOND, 2, "turn", userId="usr_1"), "does not belong", {"file": SECOND, "line": 2}),
    (member(SECOND, 2, "turn", attempts=10**6), "attempts", {"file": SECOND, "line": 2}),
    (member(SECOND, 3, "message", timestamp=10**18), "not a valid time", {"file": SECOND, "line": 3}),
    (member(SECOND, 3, "message", role="root"), "role", {"file": SECOND, "line": 3}),
    (member(SECOND, 4, "message", content=[{"type": "image", "mediaType": "a", "blob": "sha256:0"}]), "not there", {"line": 4}),
    (member(SECOND, 4, "message", content=[{"type": "text", "text": "a", "blob": "x"}]), "stands for", {"line": 4}),
    (member(SECOND, 4, "message", content=[]), "belongs to nothing", {}),
    (lines(SECOND, lambda found: [*found, found[3]]), "two messages", {"file": SECOND, "line": 9}),
    (lines(SECOND, lambda found: [*found[:2], found[1], *found[2:]]), "two turns", {"file": SECOND, "line": 3}),
    (lines(SECOND, lambda found: found[1:]), "first line", {"file": SECOND, "line": 1}),
    (lines(SECOND, lambda found: [found[0], *found]), "first line", {"file": SECOND, "line": 2}),
    (lines(SECOND, lambda found: []), "session is missing", {"file": SECOND}),
    (lines(SECOND, lambda found: [*found, b"{]\n"]), "not valid JSON", {"file": SECOND, "line": 9}),
    (lines(SECOND, lambda found: [*found, b"[]\n"]), "must be an object", {"file": SECOND, "line": 9}),
    (lines(SECOND, lambda found: [*found, b'{"type":"x","x":{}}\n']), "unknown type", {"file": SECOND, "line": 9}),
    (lines(SECOND, lambda found: [*found, b'{"type":"x","y":{}}\n']), "is missing", {"file": SECOND, "line": 9}),
    (lines(SECOND, lambda found: [*found, b"\xff\n"]), "not valid JSON", {"file": SECOND, "line": 9}),
    (lines(SECOND, lambda found: [*found, deep(100_000)]), "nested more than 200", {"file": SECOND, "line": 9}),
    (lines(SECOND, lambda found: [*found, wide(600_000)]), "more than 500,000 values", {"file": SECOND, "line": 9}),
    (lines(SECOND, lambda found: [*found, found[-1].strip()]), "no line break", {"file": SECOND, "line": 9}),
    (lines(SECOND, lambda found: found[:-1]), "counts", {"file": "manifest.json", "member": "counts"}),
    (lines("images.jsonl", lambda found: [found[0], *found]), "twice", {"file": "images.jsonl"}),
    (lines("images.jsonl", lambda found: [*found, b'{"type":"turn","turn":{}}\n']), "only images", {"line": 3}),
    (manifest_of(format=5), "format is 5", {"file": "manifest.json"}),
    (manifest_of(kind="other"), "kind", {"file": "manifest.json"}),
    (manifest_of(extra=1), "extra", {"file": "manifest.json"}),
    (more_files(evil=b""), "does not belong", {}),
    (more_files(**{"..__evil": b""}), "does not belong", {}),
    (more_files(__etc__passwd=b""), "does not belong", {}),
    (more_files(**{"sessions__000009.jsonl": b""}), "in order", {"file": "manifest.json"}),
    (more_files(**{"blobs__sha256__" + "0" * 64: b"x"}), "belongs to nothing", {}),
]  # fmt: skip


@pytest.mark.parametrize(("change", "said", "place"), BAD)
async def test_a_bad_archive_is_refused_with_the_place_of_the_error(
    good: bytes, change: Change, said: str, place: dict[str, object]
) -> None:
    bad = changed(good, change)
    error = refusal(bad)
    assert said in str(error)
    assert place.items() <= error.details.items(), error.details
    async with open_store(None) as store:
        with pytest.raises((ArchiveInvalid, ArchiveTooLarge)):
            await take_in(store, bad)
        assert await count_rows(store) == 0


async def test_what_the_manifest_says_of_a_file_must_be_so(good: bytes) -> None:
    for name in ("images.jsonl", SECOND, next(name for name in unpacked(good) if name.startswith("blobs/"))):

        def flip(files: Files, manifest: dict[str, Any], name: str = name) -> None:
            files[name] = files[name].replace(b"h", b"j", 1) if name.startswith("blobs") else files[name][::1] + b"\n"

        error = refusal(changed(good, flip, honest=False))
        assert name in str(error)


async def test_a_manifest_must_be_there_and_be_short(good: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    files = unpacked(good)
    manifest = json.loads(files.pop("manifest.json"))
    assert "no manifest.json" in str(refusal(packed(files, None)))
    assert "not those of the archive" in str(refusal(packed({**files, "sessions/000009.jsonl": b""}, manifest, honest=False)))
    monkeypatch.setattr(reading, "MANIFEST_MAX_BYTES", 10)
    assert isinstance(refusal(good), ArchiveTooLarge)


async def test_a_bomb_is_not_unpacked(good: bytes) -> None:
    def bomb(files: Files, manifest: dict[str, Any]) -> None:
        files[SECOND] += b'{"type":"message","message":{"a":"' + b"x" * 300_000_000 + b'"}}\n'

    assert isinstance(refusal(changed(good, bomb)), ArchiveTooLarge)


def said(name: str, text: str) -> bytes:
    message = {"subtype": "user", "id": name, "timestamp": 1, "role": "user", "content": text}
    return json.dumps({"type": "message", "message": message}).encode() + b"\n"


def many(number: int, size: int) -> Change:
    def change(files: Files, manifest: dict[str, Any]) -> None:
        files[SECOND] += b"".join(said(f"more{one}", "x" * size) for one in range(number))
        manifest["counts"]["messages"] += number

    return change


async def test_what_people_say_may_be_monotonous_but_not_without_end(good: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "SMALL_UNPACKED_BYTES", 3_000_000)
    with Spool() as spool:
        read_archive(io.BytesIO(changed(good, many(2, 1_000_000))), spool)
        assert spool.counts.messages == 9
    assert isinstance(refusal(changed(good, many(4, 1_000_000))), ArchiveTooLarge)
    monkeypatch.setattr(archive_module, "MAX_RATIO", 100_000)
    assert isinstance(refusal(changed(good, many(4, 1_000_000)), most_bytes=2_000_000), ArchiveTooLarge)


@pytest.mark.parametrize(
    ("bound", "most", "what"),
    [
        ("MAX_MESSAGE_BYTES", 900, "A message has more than 900 bytes"),
        ("MAX_SESSION_MESSAGES", 8, "more than 8 messages"),
        ("MAX_SESSION_BYTES", 2_500, "A session has more than 2,500 bytes"),
        ("MAX_HEAD_BYTES", 500, "without their messages"),
        ("MAX_SESSIONS", 1, "more than 1 images"),
    ],
)
async def test_messages_and_sessions_have_a_bound(
    good: bytes, bound: str, most: int, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = changed(good, many(3, 1_000))
    monkeypatch.setattr(bounds, bound, most)
    error = refusal(more)
    assert isinstance(error, ArchiveTooLarge)
    assert what in str(error)
    assert "file" in error.details or bound == "MAX_HEAD_BYTES"


async def test_a_blob_that_is_used_over_and_over_is_a_bomb_too(good: bytes) -> None:
    def repeat(files: Files, manifest: dict[str, Any]) -> None:
        body = bytes(1_000_000)
        digest = sha256(body).hexdigest()
        files[f"blobs/sha256/{digest}"] = body
        part = {"type": "image", "mediaType": "image/png", "blob": f"sha256:{digest}"}
        said = {"subtype": "user", "timestamp": 1, "role": "user", "content": [part] * 100}
        record = json.dumps({"type": "message", "message": {**said, "id": "bomb"}}).encode() + b"\n"
        files[SECOND] += record

    assert isinstance(refusal(changed(good, repeat), most_bytes=50_000_000), ArchiveTooLarge)


async def test_a_line_without_end_is_not_read_to_its_end(good: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LINE_MAX_BYTES", 1_000)

    def long(files: Files, manifest: dict[str, Any]) -> None:
        files[SECOND] += b"x" * 100_000

    error = refusal(changed(good, long))
    assert isinstance(error, ArchiveTooLarge)
    assert "line 9" in str(error)


async def test_links_and_other_strange_members_are_refused(good: bytes) -> None:
    files = unpacked(good)
    for mode in (stat.S_IFLNK, stat.S_IFDIR, stat.S_IFIFO):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as writing:
            for name, body in files.items():
                entry = zipfile.ZipInfo(name)
                entry.external_attr = (mode | 0o644) << 16 if name == SECOND else 0
                writing.writestr(entry, body)
        assert "not a plain file" in str(refusal(out.getvalue()))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_BZIP2) as writing:
        for name, body in files.items():
            writing.writestr(name, body)
    assert "unsupported compression" in str(refusal(out.getvalue()))


@pytest.mark.filterwarnings("ignore:Duplicate name")
async def test_a_name_is_there_once(good: bytes) -> None:
    out = io.BytesIO(good)
    with zipfile.ZipFile(out, "a") as writing:
        writing.writestr("images.jsonl", b"")
    assert "twice" in str(refusal(out.getvalue()))


async def test_an_encrypted_member_is_refused(good: bytes) -> None:
    body = bytearray(good)
    at = body.index(b"PK\x01\x02")
    body[at + 8] |= 1
    assert "encrypted" in str(refusal(bytes(body)))


async def test_too_many_files_are_refused_before_their_names_are_read(good: bytes) -> None:
    body = bytearray(good)
    body[-12:-10] = body[-14:-12] = (65_000).to_bytes(2, "little")
    assert isinstance(refusal(bytes(body)), ArchiveTooLarge)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "ARCHIVE_MAX_BYTES", 10)
        assert isinstance(refusal(good), ArchiveTooLarge)


async def test_an_archive_that_is_cut_off_or_damaged_anywhere_is_refused_and_harms_nothing(good: bytes) -> None:
    for at in range(0, len(good), 97):
        refusal(good[:at])
    refusal(good + b"more")
    chance = Random(6)
    for _ in range(300):
        body = bytearray(good)
        body[chance.randrange(len(body))] ^= 1 << chance.randrange(8)
        with Spool() as spool:
            try:
                read_archive(io.BytesIO(bytes(body)), spool)
            except (ArchiveInvalid, ArchiveTooLarge):
                continue
            # Some bits mean nothing, such as those of the time.
            assert spool.counts.messages == 7


FILE = b"a file"
NAME = f"blobs/sha256/{sha256(FILE).hexdigest()}"


@pytest.fixture
async def referring(anyio_backend: str) -> bytes:
    async with open_store(None) as store:
        one, first, _ = history()
        part = FilePart(data=reference_to(digest_of(FILE)), media_type="text/plain", filename="a.txt")
        said = UserMessage(id=MessageId("m"), timestamp=1, role="user", content=(part,))
        file = Attached(digest_of(FILE), len(FILE), Upload(media_type="text/plain"), FILE)
        await put(store, one, first, file, SessionContent((said,)))
        return await archive(store)


def part_of(**members: object) -> Change:
    def change(files: Files, manifest: dict[str, Any]) -> None:
        edit(files, FIRST, 2, lambda record: record["message"]["content"][0].update(members))

    return change


def without_blob(files: Files, manifest: dict[str, Any]) -> None:
    del files[NAME]
    manifest["counts"]["blobs"] = 0


def other_blob(body: bytes) -> Change:
    return lambda files, manifest: files.update({NAME: body})


BAD_FILES: list[tuple[Change, str, dict[str, object]]] = [
    (without_blob, "is not there", {"file": FIRST, "line": 2, "member": "message.content"}),
    (other_blob(b"b file"), "damaged", {"file": NAME}),
    (other_blob(b""), "must not be empty", {"file": FIRST, "line": 2, "member": "message.content"}),
    (other_blob(b"x" * 101), "may have 100", {"file": NAME}),
    (manifest_of(format=1), "need format 2", {"file": FIRST, "line": 2, "member": "message.content"}),
    (part_of(attachment="sha256:0"), "is not there", {"file": FIRST, "line": 2}),
    (part_of(attachment=7), "stands for", {"file": FIRST, "line": 2}),
    (part_of(data="aGk="), "stands for", {"file": FIRST, "line": 2}),
    (part_of(type="text", text="x"), "stands for", {"file": FIRST, "line": 2}),
    (part_of(blob=digest_of(FILE)), "", {"file": FIRST, "line": 2}),
    (part_of(surprise=1), "content", {"file": FIRST, "line": 2}),
]


@pytest.mark.parametrize(("change", "said", "place"), BAD_FILES)
async def test_a_bad_attachment_is_refused_with_its_place_and_nothing_is_written(
    referring: bytes, change: Change, said: str, place: dict[str, object]
) -> None:
    bad = changed(referring, change)
    async with open_store(None) as store:
        with Spool() as spool, pytest.raises((ArchiveInvalid, ArchiveTooLarge)) as caught:
            read_archive(io.BytesIO(bad), spool, most_attached=100)
        assert said in str(caught.value)
        assert caught.value.details.items() >= place.items()
        with pytest.raises((ArchiveInvalid, ArchiveTooLarge)):
            await take_in(store, bad, most_attached=100)
        assert await count_rows(store) == 0
        assert await store.accounts(TENANT).quotas.storage_bytes() == 0


async def test_what_a_part_says_of_its_file_may_mean_nothing(referring: bytes) -> None:
    odd = changed(referring, part_of(mediaType="?", filename="a\nb"))
    async with open_store(None) as store:
        await take_in(store, odd)
        found = await store.tenant(TENANT).container(HOME).attachments.get(digest_of(FILE))
        assert found is not None
        assert (found.media_type, found.name, found.size) == ("application/octet-stream", None, len(FILE))


async def test_files_of_two_containers_that_become_one_are_one(referring: bytes) -> None:
    async with open_store(None) as store:
        await take_in(store, referring, container=ContainerId("a"))
        await take_in(store, referring, container=ContainerId("b"))
        both = await archive(store)
    assert list(unpacked(both)).count(NAME) == 1
    async with open_store(None) as store:
        await take_in(store, both)
        homes = [store.tenant(TENANT).container(ContainerId(name)) for name in ("a", "b")]
        assert [await read_all(home.attachments, digest_of(FILE)) for home in homes] == [FILE, FILE]
        assert await archive(store) == both
    async with open_store(None) as store:
        await take_in(store, both, container=ContainerId("c"))
        assert await read_all(store.tenant(TENANT).container(ContainerId("c")).attachments, digest_of(FILE)) == FILE
