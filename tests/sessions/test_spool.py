import msgspec
import pytest

from agentvm.errors import InvalidInput
from agentvm.model.ids import ContainerId, MessageId, SessionId, TurnId
from agentvm.model.message import UserMessage
from agentvm.model.session import Fork
from agentvm.sessions import spool as module
from agentvm.sessions.line import Unfit
from agentvm.sessions.spool import Renamed, Spool
from agentvm.storage.attachments import Upload
from agentvm.storage.carry import Attached, Said
from agentvm.testing.conformance.records import default_session, image, message, session, turn

ENDED = turn("turn_1", outcome="completed", ended=2)


def put(spool: Spool) -> None:
    spool.add_image(image())
    spool.add_session(default_session(image()))
    spool.add_turn(ENDED)
    spool.add_message(UserMessage(id=MessageId("m1"), timestamp=1, role="user", content="a", turn_id=TurnId("turn_1")))
    spool.add_message(message("m2"))
    forked = Fork(session_id=image().session_id, message_id=MessageId("m1"))
    spool.add_session(msgspec.structs.replace(session("s2"), forked_from=forked))


def test_it_can_be_loaded_again_and_again() -> None:
    with Spool() as spool:
        put(spool)
        spool.check()
        first = list(spool.load(Renamed()))
        assert list(spool.load(Renamed())) == first
        assert [type(one).__name__ for one in first] == ["Image", "Session", "Said", "Session"]
        assert spool.counts.messages == 2
        assert spool.size > 100


def test_it_comes_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TOGETHER", 2)
    with Spool() as spool:
        put(spool)
        portions = [len(one.messages) + len(one.turns) for one in spool.load(Renamed()) if isinstance(one, Said)]
        assert portions == [2, 1]


def test_new_ids_are_given_wherever_the_old_ones_stand() -> None:
    renamed = Renamed({"img_1": "img_9"}, {"img_1-default": "sess_a_b9"}, ContainerId("there"))
    with Spool() as spool:
        put(spool)
        one, first, said, second = spool.load(renamed)
    assert (one.image_id, one.session_id, one.container_id) == ("img_9", "sess_a_b9", "there")  # type: ignore[union-attr]
    assert (first.session_id, first.image_id, first.container_id) == ("sess_a_b9", "img_9", "there")  # type: ignore[union-attr]
    assert isinstance(said, Said)
    # In the tenant's books a turn has one name.
    assert said.turns[0].turn_id == said.messages[0].turn_id == "turn_1_b9"
    assert said.messages[1].turn_id is None
    assert second.forked_from.session_id == "sess_a_b9"  # type: ignore[union-attr]
    assert renamed.turn_id(SessionId("s2"), TurnId("turn_1")) == "turn_1"


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


def test_what_is_large_goes_to_the_disk_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IN_MEMORY", 100)
    with Spool() as spool:
        put(spool)
        assert len(list(spool.load(Renamed()))) == 4


def test_a_file_is_put_aside_once_and_named_for_each_container() -> None:
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
        assert spool.size > 4
        for _ in range(2):
            found = [one for one in spool.load(Renamed()) if isinstance(one, Attached)]
            assert found == [Attached("sha256:x", 4, about, b"body"), Attached("sha256:x", 4, about, None)]
    assert reads == ["sha256:x"]
