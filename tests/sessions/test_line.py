import json

import pytest
from tests.conformance.records import EVERY_KIND, image, session, turn

from agentvm.model.attachment import reference_to
from agentvm.model.ids import MessageId
from agentvm.model.message import FilePart, ImagePart, Message, UserMessage
from agentvm.model.session_file import FileChange, FileDelta
from agentvm.sessions import line
from agentvm.sessions.line import Unfit, blob_of, read_line


@pytest.mark.parametrize("message", EVERY_KIND)
def test_a_message_comes_back_the_same(message: Message) -> None:
    body, digests = line.of_message(message)
    assert body.endswith(b"\n")
    blobs = line.blobs_of(message)
    assert set(digests) == set(blobs)
    kind, said = read_line(body)
    assert (kind, line.to_message(said, blobs.__getitem__)) == ("message", message)


REFERRED = f"sha256:{'0' * 64}"
REFERRING = UserMessage(
    id=MessageId("m"),
    timestamp=1,
    role="user",
    content=(
        ImagePart(data=reference_to(REFERRED), media_type="image/png", name="a.png"),
        FilePart(data="aGk=", media_type="a/b"),
        FilePart(data=reference_to(REFERRED), media_type="text/plain", filename="a.txt"),
    ),
)


def test_a_reference_comes_back_as_one_and_its_file_is_asked_for() -> None:
    body, digests = line.of_message(REFERRING, [REFERRED])
    assert digests == [line.digest_of(b"hi")]
    _, said = read_line(body)
    assert said["content"][0] == {"type": "image", "mediaType": "image/png", "name": "a.png", "attachment": REFERRED}
    asked: list[tuple[object, ...]] = []
    again = line.to_message(said, lambda _: b"hi", lambda *about: asked.append(about))
    assert again == REFERRING
    assert asked == [(REFERRED, "image/png", "a.png"), (REFERRED, "text/plain", "a.txt")]
    with pytest.raises(Unfit, match="format 2"):
        line.to_message(said, lambda _: b"hi")


def test_a_reference_to_what_is_gone_stays_what_it_is() -> None:
    body, _ = line.of_message(REFERRING)
    _, said = read_line(body)
    assert said["content"][0]["data"] == reference_to(REFERRED)
    assert line.to_message(said, lambda _: b"hi") == REFERRING


def test_records_come_back_without_what_belongs_to_the_server() -> None:
    _, said = read_line(line.of_session(session("s")))
    assert "containerId" not in said
    assert line.to_session(said, "home") == session("s")
    ended = turn("t", outcome="failed", ended=7)
    _, said = read_line(line.of_turn(ended))
    own = session(ended.session_id)
    assert line.to_turn(said, own) == ended
    assert line.to_image(read_line(line.of_image(image()))[1]) == image()


def test_a_turn_that_has_not_ended_is_not_carried() -> None:
    _, said = read_line(line.of_turn(turn("t")))
    with pytest.raises(Unfit, match="must have ended") as caught:
        line.to_turn(said, session("s"))
    assert caught.value.member == "turn.outcome"


def test_base64_that_comes_out_otherwise_is_no_blob() -> None:
    assert blob_of("aGk=") == b"hi"
    assert [blob_of(odd) for odd in ("aGk", "aGl=", "aGk=\n", "", "https://x", "你")] == [None] * 6


def test_text_that_cannot_be_stored_is_refused() -> None:
    body = json.dumps({"type": "message", "message": {"subtype": "user", "id": "a", "timestamp": 1, "content": "\ud800"}})
    with pytest.raises(Unfit):
        line.to_message(read_line(body.encode())[1] | {"role": "user"}, lambda _: b"")


def test_a_change_of_a_file_comes_back_with_its_mark() -> None:
    change = FileChange(path="a.txt", digest=REFERRED, size=2, tainted=True)
    kind, said = read_line(line.of_file(FileDelta(changes=(change,), at=1)))
    assert (kind, line.to_file(said).tainted) == ("file", True)
