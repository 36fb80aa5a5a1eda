"""What the process does, in this one; what becomes of it as a process: `test_import_process`."""

import errno
import io
import json
from typing import BinaryIO

import msgspec
import pytest
from tests.conformance.records import HOME
from tests.sessions.histories import archive, filled

from agentvm.errors.archive import ArchiveInvalid
from agentvm.sessions import import_reader
from agentvm.sessions.import_reader import Orders, Reading, Refusal, read
from agentvm.sessions.staged import Staged

CLAUDE = json.dumps([{"name": "Hi", "chat_messages": [{"sender": "human", "text": "你好"}]}]).encode()
CHATGPT = json.dumps([{"title": "Hi", "mapping": {}}]).encode()
OPENWEBUI = json.dumps([{"title": "Hi", "chat": {"messages": [{"role": "user", "content": "x"}]}}]).encode()


async def test_it_finds_out_who_wrote_the_file() -> None:
    async with filled() as store:
        ours = await archive(store)
    for kind, body in (("archive", ours), ("claude", CLAUDE), ("chatgpt", CHATGPT), ("openwebui", OPENWEBUI)):
        for said in ("auto", kind):
            out = io.BytesIO()
            reading = read(io.BytesIO(body), out, Orders(kind=said, container_id=HOME))  # type: ignore[arg-type]
            assert reading.kind == kind
            assert Staged(out).counts.images > 0


@pytest.mark.parametrize("body", [b"", b"PK", b"PK\x03\x04 and so on", b"{}", b"words"])
async def test_what_nobody_knows_is_no_archive(body: bytes) -> None:
    with pytest.raises(ArchiveInvalid):
        read(io.BytesIO(body), io.BytesIO(), Orders(container_id=HOME))


def answer(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> Reading | Refusal:
    def fail(source: BinaryIO, out: BinaryIO, orders: Orders) -> Reading:
        raise error

    monkeypatch.setattr(import_reader, "read", fail)
    return import_reader._answer(io.BytesIO(), io.BytesIO(), Orders())


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ArchiveInvalid("no", details={"file": "a", "line": 3}), "archive_invalid"),
        (MemoryError(), "archive_too_large"),
        (OSError(errno.EFBIG, "File too large"), "archive_too_large"),
        (OSError(errno.ENOSPC, "No space left on device"), "store_failed"),
    ],
)
def test_what_stops_it_is_said_in_words(monkeypatch: pytest.MonkeyPatch, error: BaseException, code: str) -> None:
    said = answer(monkeypatch, error)
    assert isinstance(said, Refusal)
    assert (said.code, bool(said.message)) == (code, True)
    again = msgspec.json.decode(msgspec.json.encode(said), type=Reading | Refusal)
    assert again == said
    assert said.details == ({"file": "a", "line": 3} if code == "archive_invalid" else {})
