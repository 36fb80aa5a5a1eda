import msgspec
import pytest
from tests.conformance.records import default_session, image, session
from tests.sessions.spools import ENDED, put

from agentvm.errors import InvalidInput
from agentvm.errors.archive import ArchiveTooLarge
from agentvm.model.ids import TurnId
from agentvm.sessions import bounds
from agentvm.sessions.line import Unfit
from agentvm.sessions.spool import Heads, Spool
from agentvm.storage.attachments import Upload


def test_it_counts_what_it_takes() -> None:
    with Spool() as spool:
        put(spool)
        spool.check()
        assert (spool.counts.images, spool.counts.sessions, spool.counts.messages, spool.counts.turns) == (1, 2, 2, 1)
        assert spool.size > 100


def test_what_does_not_hold_together_is_refused() -> None:
    with Spool() as spool:
        put(spool)
        with pytest.raises(Unfit, match="two images"):
            spool.add_image(image())
        with pytest.raises(Unfit, match="two sessions"):
            spool.add_session(session("s2"))
        with pytest.raises(Unfit, match="is not there"):
            spool.add_session(session("s3", "img_7"))
        spool.add_session(session("s4"))
        keyed = msgspec.structs.replace(ENDED, client_key="k")
        spool.add_turn(keyed)
        with pytest.raises(Unfit, match="clientKey"):
            spool.add_turn(msgspec.structs.replace(keyed, turn_id=TurnId("turn_2")))
        with pytest.raises(InvalidInput):
            spool.add_image(image("img_5", "../x"))
        spool.check()
        spool.add_image(image("img_6"))
        # It would name a session that somebody else may have here, and who has that one could not delete it any more.
        with pytest.raises(Unfit, match="default session"):
            spool.check()
        spool.add_session(session("s6", "img_6"))
        with pytest.raises(Unfit, match="default session"):
            spool.check()
        spool.add_session(default_session(image("img_6")))
        spool.check()


def test_what_is_held_in_memory_is_bounded_by_bytes_and_by_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_HEAD_BYTES", 1_000)
    monkeypatch.setattr(bounds, "MAX_HEAD_VALUES", 100)
    heads = Heads()
    heads.add(b'"' + b"x" * 500 + b'"')
    with pytest.raises(ArchiveTooLarge):
        heads.add(b'"' + b"x" * 500 + b'"')
    with pytest.raises(ArchiveTooLarge):
        Heads().add(b"[" + b"1," * 100 + b"1]")


def test_a_file_is_read_once_for_all_containers() -> None:
    reads: list[str] = []

    def read(digest: str) -> bytes:
        reads.append(digest)
        return b"body"

    about = Upload(media_type="a/b", name="n")
    with Spool() as spool:
        for name, container in (("i1", "a"), ("i2", "b")):
            made = image(name, container)
            spool.add_image(made)
            spool.add_session(default_session(made))
            for _ in range(2):
                spool.add_attachment("sha256:x", about, read)
    assert reads == ["sha256:x"]


def test_there_are_only_so_many_attachments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_ATTACHMENTS", 1)
    with Spool() as spool:
        put(spool)
        spool.add_attachment("sha256:x", Upload(media_type="a/b"), lambda _: b"body")
        with pytest.raises(ArchiveTooLarge):
            spool.add_attachment("sha256:y", Upload(media_type="a/b"), lambda _: b"body")
