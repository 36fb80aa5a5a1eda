"""What a process wrote that had an untrusted archive in its hands is not believed either."""

from collections.abc import Callable
from io import BytesIO

import msgspec
import pytest
from tests.conformance.records import default_session, image, message
from tests.sessions.spools import ENDED, put

from agentvm.errors.archive import ArchiveInvalid
from agentvm.model.attachment import reference_to
from agentvm.model.ids import ContainerId, MessageId, UserId
from agentvm.model.image import ImageConfig
from agentvm.model.message import FilePart, UserMessage
from agentvm.sessions import bounds, staged
from agentvm.sessions.line import digest_of
from agentvm.sessions.placement import ExistingPart, Placement
from agentvm.sessions.spool import FILE, IMAGE, MESSAGE, SESSION, TURN, Spool, SpooledFile
from agentvm.sessions.staged import Staged
from agentvm.storage.attachments import Upload
from agentvm.storage.carry import Attached, Continued, Present, SessionContent

BODY = b"a file"


def spooled(fill: Callable[[Spool], None] = put) -> BytesIO:
    spool = Spool(BytesIO())
    fill(spool)
    assert isinstance(spool.file, BytesIO)
    return spool.file


def record(kind: bytes, body: object) -> bytes:
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return kind + len(raw).to_bytes(8, "big") + raw


def test_it_can_be_loaded_again_and_again() -> None:
    found = Staged(spooled())
    first = list(found.load(Placement()))
    assert list(found.load(Placement())) == first
    assert [type(one).__name__ for one in first] == ["Image", "Session", "SessionContent", "Session"]
    assert (found.counts.images, found.counts.sessions, found.counts.messages, found.counts.turns) == (1, 2, 2, 1)
    assert found.containers == {image().container_id: 1}


def test_it_comes_in_portions_of_so_many_records_and_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    def portions() -> list[int]:
        said = [one for one in Staged(spooled()).load(Placement()) if isinstance(one, SessionContent)]
        return [len(one.messages) + len(one.turns) for one in said]

    assert portions() == [3]
    monkeypatch.setattr(staged, "BATCH_MAX", 2)
    assert portions() == [2, 1]
    monkeypatch.setattr(staged, "BATCH_MAX", 256)
    monkeypatch.setattr(staged, "BATCH_MAX_BYTES", 1)
    assert portions() == [1, 1, 1]


def test_what_is_here_already_is_not_loaded_again() -> None:
    found = Staged(spooled())
    default = str(image().session_id)
    assert [found.message_id(default, number) for number in (0, 1, 2, 3)] == [None, "m1", "m2", None]
    whole = Placement(
        present=frozenset({"img_1"}),
        known={default: ExistingPart(2, 1), "s2": ExistingPart(0, 0)},
        complete=frozenset({default, "s2"}),
    )
    assert list(found.load(whole)) == []
    assert list(found.arrivals(whole)) == []
    grown = Placement(present=frozenset({"img_1"}), known={default: ExistingPart(1, 1)})
    present, continued, said, new = found.load(grown)
    assert isinstance(present, Present)
    assert continued == Continued(default_session(image()), MessageId("m1"))
    assert isinstance(said, SessionContent)
    assert [one.id for one in said.messages] == ["m2"]
    assert [new] == list(found.arrivals(grown))
    assert 0 < found.size_behind(default, 1) < found.size_behind(default, 0) < found.size


def referring(container: str, name: str) -> Callable[[Spool], None]:
    def fill(spool: Spool) -> None:
        made = image(name, container)
        spool.add_image(made)
        spool.add_session(default_session(made))
        spool.add_attachment(digest_of(BODY), Upload(media_type="a/b", name="n"), lambda _: BODY)
        part = FilePart(data=reference_to(digest_of(BODY)), media_type="a/b")
        for one in ("m1", "m2"):
            spool.add_message(UserMessage(id=MessageId(one), timestamp=1, role="user", content=(part,)))

    return fill


def both(spool: Spool) -> None:
    referring("a", "i1")(spool)
    referring("b", "i2")(spool)


def test_a_file_comes_before_what_refers_to_it_with_its_bytes_once() -> None:
    found = Staged(spooled(both))
    kinds = [type(one).__name__ for one in found.load(Placement())]
    assert kinds == ["Image", "Session", "Attached", "SessionContent"] * 2
    about = Upload(media_type="a/b", name="n")
    attached = [one for one in found.load(Placement()) if isinstance(one, Attached)]
    assert attached == [
        Attached(digest_of(BODY), len(BODY), about, BODY), Attached(digest_of(BODY), len(BODY), about, None),
    ]  # fmt: skip
    # Also when the session that brought it is here already.
    first = str(image("i1").session_id)
    known = Placement(present=frozenset({"i1"}), known={first: ExistingPart(2, 0)}, complete=frozenset({first}))
    (again,) = [one for one in found.load(known) if isinstance(one, Attached)]
    assert again.body == BODY
    merged = Placement(container=ContainerId("c"), known={first: ExistingPart(1, 0)}, present=frozenset({"i1"}))
    assert [type(one).__name__ for one in found.load(merged)][:4] == ["Present", "Continued", "Attached", "SessionContent"]


HEAD = record(IMAGE, image()) + record(SESSION, default_session(image()))
LYING: list[tuple[str, bytes]] = [
    ("too long", IMAGE + (2**40).to_bytes(8, "big")),
    ("no kind", b"x" + bytes(8)),
    ("cut off", record(IMAGE, image())[:-1]),
    ("cut off", HEAD[:-3]),
    ("before its session", record(MESSAGE, message("m"))),
    ("before its session", record(IMAGE, image()) + record(TURN, ENDED)),
    ("twice", record(IMAGE, image()) * 2),
    ("twice", HEAD + record(SESSION, default_session(image()))),
    ("where its image is", record(SESSION, default_session(image()))),
    ("where its image is", record(IMAGE, image()) + record(SESSION, default_session(image(container="away")))),
    ("digest of an image", record(IMAGE, msgspec.structs.replace(image(), digest="sha256:0"))),
    ("has an apiKey", record(IMAGE, msgspec.structs.replace(image(), config=ImageConfig(api_key="sk-clear")))),
    ("is not a valid id", record(IMAGE, msgspec.structs.replace(image(), image_id="../x"))),
    ("containerId", record(IMAGE, msgspec.structs.replace(image(), container_id="../x"))),
    ("values", record(IMAGE, b"[" + b"1," * 600_000 + b"1]")),
    ("has no bytes", HEAD + record(FILE, SpooledFile(digest="sha256:0", size=1, media_type="a/b"))),
    ("too large", HEAD + record(FILE, SpooledFile(digest="sha256:0", size=2**40, media_type="a/b", has_body=True))),
    ("too large", HEAD + record(FILE, SpooledFile(digest="sha256:0", size=-5, media_type="a/b", has_body=True))),
    ("inconsistent", record(IMAGE, b"{}")),
    ("inconsistent", record(IMAGE, b"\xff")),
    ("inconsistent", record(IMAGE, b"[" * 199)),
]  # fmt: skip


@pytest.mark.parametrize(("why", "body"), LYING)
def test_a_spool_that_does_not_hold_together_is_refused(why: str, body: bytes) -> None:
    with pytest.raises(ArchiveInvalid, match=why):
        Staged(BytesIO(body))


REFERRING = UserMessage(
    id=MessageId("m"),
    timestamp=1,
    role="user",
    content=(FilePart(data=reference_to(digest_of(b"ours")), media_type="a/b"),),
)
OTHERS = record(FILE, SpooledFile(digest=digest_of(b"ours"), size=4, media_type="a/b", has_body=True)) + b"evil"
LATE: list[tuple[str, bytes]] = [
    ("is not a valid id", record(MESSAGE, msgspec.structs.replace(message("m"), id=MessageId("a b")))),
    ("not a valid time", record(MESSAGE, msgspec.structs.replace(message("m"), timestamp=-1))),
    ("names a user", record(TURN, msgspec.structs.replace(ENDED, user_id=UserId("usr_1")))),
    ("are others", OTHERS + record(MESSAGE, REFERRING)),
    ("values", record(MESSAGE, b"[" + b"1," * 600_000 + b"1]")),
    ("inconsistent", record(MESSAGE, b"{}")),
]


@pytest.mark.parametrize(("why", "body"), LATE)
def test_what_was_said_is_looked_at_when_it_is_loaded(why: str, body: bytes) -> None:
    found = Staged(BytesIO(HEAD + body))
    with pytest.raises(ArchiveInvalid, match=why):
        list(found.load(Placement()))


def test_a_session_has_only_so_many_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    spool = spooled()
    monkeypatch.setattr(bounds, "MAX_SESSION_MESSAGES", 1)
    with pytest.raises(ArchiveInvalid, match="too many messages"):
        Staged(spool)
