"""The parser, called as its jail calls it: bytes of each kind in, text or a sentence out."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.knowledge.documents import docx, pptx, xlsx, zipped

from agentvm.knowledge import parser_program
from agentvm.knowledge.parser_program import READERS, read_bytes, run


def read(kind: str, data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    (tmp_path / "document").write_bytes(data)
    monkeypatch.setenv("AVM_IN", str(tmp_path))
    return run(kind)


HTML = "<html><head><title> Shop\n hours </title><style>x</style></head><body><h1>营业时间</h1><p>Mo–Fr<script>no</script></p>"
MAIL = "From: a@x.org\r\nSubject: Hello\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nThe body 正文\r\n"


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        ("text", "退货 tea".encode(), "退货 tea"),
        ("text", "退货".encode("gb18030"), "退货"),
        ("text", "tea".encode("utf-16"), "tea"),
        ("csv", b"name,price\ngreen tea,4\n", "name | price\ngreen tea | 4"),
        ("json", '{"tea": "绿茶"}'.encode(), '{\n "tea": "绿茶"\n}'),
        ("html", HTML.encode(), "# 营业时间\n\nMo–Fr"),
        ("eml", MAIL.encode(), "From: a@x.org\nSubject: Hello\n\nThe body 正文\n"),
        ("docx", docx(("Heading1", "退货"), ("Normal", "Within seven days")), "# 退货\n\nWithin seven days"),
        ("xlsx", xlsx(("tea", "4"), ("coffee", "5")), "# Prices\n\ntea | 4\ncoffee | 5"),
    ],
)
def test_each_kind_gives_its_text(kind: str, data: bytes, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = read(kind, data, tmp_path, monkeypatch)
    assert told["pages"] == [[None, text]]


def test_slides_have_their_numbers_and_pages_their_titles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read("pptx", pptx("First", "第二"), tmp_path, monkeypatch)["pages"] == [[1, "First"], [2, "第二"]]
    assert read("html", HTML.encode(), tmp_path, monkeypatch)["title"] == "Shop hours"
    assert read("eml", MAIL.encode(), tmp_path, monkeypatch)["title"] == "Hello"


@pytest.mark.parametrize(
    ("kind", "data", "why"),
    [
        ("text", b"\x00\x01\x02", "NUL bytes"),
        ("json", b"{", "not valid JSON"),
        ("json", b"[" * 100_000, "not valid JSON"),
        ("docx", b"PK\x03\x04 broken", "damaged"),
        ("docx", zipped(other="x"), "damaged: KeyError"),
        ("docx", zipped(**{"word__document.xml": "<w:document"}), "damaged: ParseError"),
        ("xlsx", docx(("", "x"))[:-30], "damaged"),
        ("eml", b"Content-Type: image/png\r\n\r\nx", "no text"),
    ],
)
def test_what_cannot_be_read_is_explained(
    kind: str, data: bytes, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert why in read(kind, data, tmp_path, monkeypatch)["problem"]


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser_program, "UNPACKED_MAX", 1_000_000)
    assert (
        "unpacks to more" in read("docx", zipped(**{"word__document.xml": b"0" * 2_000_000}), tmp_path, monkeypatch)["problem"]
    )
    monkeypatch.setattr(parser_program, "TEXT_MAX", 10)
    assert "more than 10 characters" in read("text", b"x" * 11, tmp_path, monkeypatch)["problem"]


@given(st.sampled_from(sorted(READERS.keys() - {"pdf"})), st.binary(max_size=200))
def test_any_bytes_give_text_or_a_reason(kind: str, data: bytes) -> None:
    told = read_bytes(kind, data)
    assert ("pages" in told) != ("problem" in told)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("json", b'{"a": "\\ud800 tea", "\\udfff": 1}'),
        ("html", b"<title>&#xd800;</title><p>tea"),
        ("eml", b"Subject: a\n\ntea\0"),
    ],
)
def test_texts_can_be_sent_and_stored_whatever_the_document_says(kind: str, data: bytes) -> None:
    read = read_bytes(kind, data)
    assert b"tea" in msgspec.json.encode(read)
    assert b"u0000" not in msgspec.json.encode(read)


def test_a_title_is_short_because_every_passage_has_it() -> None:
    read = read_bytes("html", b"<title>" + b"a" * 100_000 + b"</title><p>tea")
    assert len(str(read["title"])) == 1_000
