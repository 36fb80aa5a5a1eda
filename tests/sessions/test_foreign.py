import io
import json
import zipfile
from collections.abc import Mapping

import msgspec
import pytest
from tests.conformance.records import HOME

from agentvm.errors.archive import ArchiveInvalid, ArchiveTooLarge
from agentvm.model.image import Image
from agentvm.model.message import ToolCallMessage
from agentvm.model.session import Session
from agentvm.sessions import archive, claude, foreign
from agentvm.sessions.bounds import MAX_IMPORT_BYTES
from agentvm.sessions.foreign import (
    Conversation,
    as_json,
    branch,
    data_uri,
    decode,
    iso,
    leaf,
    open_foreign,
    read_foreign,
    recognise,
    seconds,
    text_of,
)
from agentvm.sessions.line import Unfit
from agentvm.sessions.placement import Placement
from agentvm.sessions.spool import Spool
from agentvm.sessions.staged import Staged
from agentvm.storage.carry import SessionContent

ONE = {"name": "A", "created_at": "2025-01-02T03:04:05Z", "chat_messages": [{"sender": "human", "text": "hi"}]}


def read(body: bytes, most_bytes: int = MAX_IMPORT_BYTES) -> Staged:
    spool = Spool(io.BytesIO())
    with open_foreign(io.BytesIO(body), most_bytes) as text:
        read_foreign(text, "claude", claude.parse, spool, HOME)
    found = Staged(spool.file)
    list(found.load(Placement()))
    return found


def zipped(**files: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as writing:
        for name, body in files.items():
            writing.writestr(f"{name}.json", body)
    return out.getvalue()


def test_each_conversation_is_an_image_with_a_session() -> None:
    found = read(json.dumps([ONE, ONE]).encode())
    assert (found.counts.images, found.counts.sessions, found.counts.messages) == (2, 2, 2)
    assert [one.name for one in found.arrivals(Placement()) if isinstance(one, Image)] == ["A", "A"]
    assert found.containers == {HOME: 2}


def test_the_zip_that_it_comes_in_will_do() -> None:
    assert read(zipped(users=b"{}", conversations=json.dumps(ONE).encode())).counts.images == 1
    with pytest.raises(ArchiveInvalid, match=r"no conversations\.json"):
        read(zipped(users=b"{}"))
    with pytest.raises(ArchiveInvalid, match="damaged"):
        read(zipped(conversations=b"[]")[:-30])


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000, b'[{"chat_messages": 1}]', b"[1]", b"7"])
def test_what_is_something_else_is_refused(body: bytes) -> None:
    with pytest.raises((ArchiveInvalid, ArchiveTooLarge), match=r"conversations\.json"):
        read(body)


def test_the_conversation_that_does_not_fit_is_named() -> None:
    with pytest.raises(ArchiveInvalid, match="Conversation 2: there are no `chat_messages`") as caught:
        read(json.dumps([ONE, {}]).encode())
    assert caught.value.details == {"file": "conversations.json", "member": "chat_messages"}


def test_what_is_too_large_or_packed_too_well_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for body in (b" " * 2_000, zipped(conversations=b" " * 2_000)):
        with pytest.raises(ArchiveTooLarge):
            read(body, most_bytes=1_000)
    monkeypatch.setattr(archive, "SMALL_UNPACKED_BYTES", 1_000_000)
    with pytest.raises(ArchiveTooLarge):
        read(zipped(conversations=b" " * 2_000_000))
    monkeypatch.setattr(foreign, "MAX_SESSIONS", 1)
    with pytest.raises(ArchiveTooLarge, match="more than 1 conversations"):
        read(json.dumps([ONE, ONE]).encode())


def test_a_conversation_has_the_same_ids_each_time_and_when_it_has_grown() -> None:
    def ids_of(*found: Mapping[str, object]) -> list[tuple[str, tuple[str, ...]]]:
        shown: list[tuple[str, tuple[str, ...]]] = []
        for record in read(json.dumps(found).encode()).load(Placement()):
            if isinstance(record, Session):
                shown.append((str(record.session_id), ()))
            elif isinstance(record, SessionContent):
                shown[-1] = (shown[-1][0], tuple(str(one.id) for one in record.messages))
        return shown

    more = {"sender": "assistant", "text": "hello"}
    grown = {**ONE, "name": "B", "chat_messages": [*ONE["chat_messages"], more]}
    ((name, said),) = ids_of(ONE)
    assert ids_of(ONE) == [(name, said)]
    ((again, longer),) = ids_of(grown)
    assert (again, longer[:1], len(longer)) == (name, said, 2)
    edited = {**ONE, "chat_messages": [{"sender": "human", "text": "ho"}]}
    assert ids_of({**edited, "uuid": "1"})[0][0] == ids_of({**ONE, "uuid": "1"})[0][0] != name
    assert ids_of({**edited, "uuid": "1"})[0][1] != said
    # Two that are alike are two, each time.
    assert len(dict(ids_of(ONE, ONE))) == 2
    assert ids_of(ONE, ONE) == ids_of(ONE, ONE)


@pytest.mark.parametrize(
    ("body", "program"),
    [
        ([{"mapping": {}}], "chatgpt"),
        ({"mapping": {}}, "chatgpt"),
        ([{"chat_messages": []}], "claude"),
        ([{"chat": {}, "title": "x"}], "openwebui"),
    ],
)
def test_who_wrote_it_is_known_by_its_first_conversation(body: object, program: str) -> None:
    raw = json.dumps(body).encode()
    for file in (raw, b"\xef\xbb\xbf" + raw, zipped(conversations=raw)):
        with open_foreign(io.BytesIO(file), MAX_IMPORT_BYTES) as text:
            assert recognise(text) == program
            assert len(list(text.conversations())) == 1


@pytest.mark.parametrize("body", [b"[]", b"[{}]", b"[7]", b"words", b""])
def test_what_nobody_knows_is_refused_with_what_is_known(body: bytes) -> None:
    with open_foreign(io.BytesIO(body), MAX_IMPORT_BYTES) as text, pytest.raises(ArchiveInvalid):
        recognise(text)


def test_half_a_character_is_mended_and_keeps_nothing_else_out() -> None:
    assert decode(rb'["a\ud83d", "\udE00b", "\ud83d\ude00", "\\ud83d", "\n"]') == ["a\ufffd", "\ufffdb", "😀", r"\ud83d", "\n"]
    assert decode(rb'"\ud83d\ud83d\ude00"') == "\ufffd😀"
    for wrong in (b'"\\ud83"', b"[", b"NaN"):
        with pytest.raises(msgspec.DecodeError):
            decode(wrong)
    assert text_of(7) == ""


def test_a_tool_has_a_name_that_every_provider_takes() -> None:
    made = Conversation("A", 1, 1)
    for name in ("dalle.text2im", "web search!", "搜", "", "x" * 99, "ok_1-2"):
        made.call(name, {}, 1)
    names = [one.tool_call.name for one in made.messages if isinstance(one, ToolCallMessage)]
    assert names == ["dalle_text2im", "web_search_", "_", "tool", "x" * 64, "ok_1-2"]


def test_times_that_mean_nothing_are_none() -> None:
    assert (seconds(1.5), seconds("x"), seconds(1e300), seconds(-1), seconds(None)) == (1500, 0, 0, 0, 0)
    assert (iso("1970-01-01T00:00:01Z"), iso("soon"), iso(None), iso("0001-01-01T00:00:00Z")) == (1000, 0, 0, 0)


def test_a_branch_goes_from_the_root_to_the_last_and_never_round() -> None:
    nodes = {"a": {"p": None, "n": 1}, "b": {"p": "a", "n": 2}, "x": {"p": "a", "n": 3}, "o": {"p": "o"}}
    assert [node["n"] for node in branch(nodes, "b", "p")] == [1, 2]
    assert branch(nodes, "nobody", "p") == branch(nodes, None, "p") == []
    with pytest.raises(Unfit, match="cycle"):
        branch(nodes, "o", "p")


def test_arguments_of_tools_are_objects() -> None:
    assert as_json('{"a": 1}') == {"a": 1}
    assert as_json("print(1)") == {"text": "print(1)"}
    assert as_json("[1]") == {"text": "[1]"}
    assert as_json('{"a": NaN}') == {"text": '{"a": NaN}'}
    assert as_json(r'{"a": "\ud800"}') == {"a": "\ufffd"}
    for bomb in ('{"a": [' + "[]," * 600_000 + "1]}", '{"a":' * 300 + "1" + "}" * 300):
        assert as_json(bomb) == {"text": bomb}


def test_where_nobody_says_what_was_looked_at_the_last_leaf_was() -> None:
    nodes = {"a": {"p": None}, "b": {"p": "a"}, "c": {"p": "b"}, "x": {"p": "a"}, "d": {"p": "c"}}
    assert (leaf(nodes, "p"), leaf({}, "p"), leaf({"a": {"p": "a"}}, "p")) == ("d", None, None)


def test_a_data_uri_is_taken_apart() -> None:
    assert data_uri("data:image/png;base64,aGk=") == ("image/png", "aGk=")
    assert data_uri("https://example.com/x") is data_uri("data:image/png;base64,?") is data_uri("data:text/plain,x") is None


def test_what_is_on_the_spool_can_be_loaded() -> None:
    _, session, said = read(json.dumps(ONE).encode()).load(Placement())
    assert isinstance(said, SessionContent)
    assert (session.title, said.messages[0].timestamp) == ("A", 1735787045000)  # type: ignore[union-attr]
