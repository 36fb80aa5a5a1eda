"""The parser, called as its jail calls it: bytes of each kind in, text or a sentence out."""

from typing import cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.knowledge.documents import docx, docx_of, pptx, reordered_pptx, workbook, xlsx, zipped

from agentvm.knowledge import parser_program
from agentvm.knowledge.parser_program import READERS, read_bytes

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
        # Tags that may be left out, and often are.
        (
            "html",
            b"<!doctype html><head><title>Tea</title><meta charset=utf-8><body><p>All of it<li>and a list",
            "All of it\n- and a list",
        ),
        ("eml", MAIL.encode(), "From: a@x.org\nSubject: Hello\n\nThe body 正文\n"),
        ("docx", docx(("Heading1", "退货"), ("Normal", "Within seven days")), "# 退货\n\nWithin seven days"),
        ("xlsx", xlsx(("tea", "4"), ("coffee", "5")), "# Prices\n\ntea | 4\ncoffee | 5"),
    ],
)
def test_each_kind_gives_its_text(kind: str, data: bytes, text: str) -> None:
    told = read_bytes(kind, data)
    assert told["pages"] == [[None, text]]


@pytest.mark.parametrize(
    ("kind", "text", "encoding"),
    [
        ("text", "退货政策：七天之内可以退货，运费由我们承担。", "gbk"),
        ("text", "退貨政策：七天之內可以退貨，運費由我們承擔。", "gbk"),
        ("text", "See page 3 of the manual: " * 9_000 + "型号，峡湾。", "gb18030"),
        ("text", "Rückgabe innerhalb von sieben Tagen, Größe und Käufer in Österreich", "cp1252"),
        ("text", "Les retours sont acceptés sous sept jours ; l’été, c’est “très” chaud.", "cp1252"),
        ("text", "保修两年，电池一年。", "utf-16"),
        ("html", '<meta charset="Big5"><p>退貨政策：七天之內可以退貨', "big5"),
        (
            "html",
            "<meta http-equiv=Content-Type content='text/html; charset=shift_jis'><p>返品は七日以内に可能です。",
            "shift_jis",
        ),
        ("html", "<meta charset=nonsense><p>退货政策，七天之内", "gbk"),
    ],
)
def test_a_text_is_read_in_its_encoding(kind: str, text: str, encoding: str) -> None:
    pages = cast("list[list[object]]", read_bytes(kind, text.encode(encoding))["pages"])
    assert [page[1] for page in pages] == [text.rpartition("<p>")[2]]


@pytest.mark.parametrize("encoding", ["big5", "shift_jis", "cp1251", "utf-16-le"])
def test_a_text_in_another_encoding_is_refused_and_not_read_as_gibberish(encoding: str) -> None:
    text = {"big5": "退貨政策：七天之內可以退貨，運費由我們承擔。", "cp1251": "Возврат возможен"}.get(
        encoding, "返品は七日以内に可能です。"
    )
    assert "GB18030 or Windows-1252" in str(read_bytes("text", text.encode(encoding)).get("problem"))


def test_slides_have_their_numbers_and_pages_their_titles() -> None:
    assert read_bytes("pptx", pptx("First", "第二"))["pages"] == [[1, "First"], [2, "第二"]]
    assert read_bytes("html", HTML.encode())["title"] == "Shop hours"
    assert read_bytes("eml", MAIL.encode())["title"] == "Hello"


def test_sheets_and_slides_come_in_the_order_in_which_people_see_them() -> None:
    row = '<row><c t="inlineStr"><is><t>{}</t></is></c></row>'
    data = workbook({"Prices": "b", "Stock": "a"}, {"a": row.format("in stock"), "b": row.format("in euros")})
    assert read_bytes("xlsx", data)["pages"] == [[None, "# Prices\n\nin euros\n\n# Stock\n\nin stock"]]
    assert read_bytes("pptx", reordered_pptx(slide2="First", slide1="第二"))["pages"] == [[1, "First"], [2, "第二"]]


def test_cells_are_told_as_they_are_shown() -> None:
    styles = (
        '<numFmts><numFmt numFmtId="164" formatCode="yyyy\\-mm"/>'
        '<numFmt numFmtId="165" formatCode="0.0&quot;days&quot;"/></numFmts>'
        '<cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="164"/><xf numFmtId="165"/><xf numFmtId="20"/></cellXfs>'
    )
    strings = "<si><t>東京</t><rPh><t>トウキョウ</t></rPh></si>"
    cells = (
        '<c t="s"><v>0</v></c><c s="1"><v>45321</v></c><c s="2"><v>45321.5</v></c><c s="3"><v>7</v></c><c s="4"><v>0.75</v></c>'
    )
    rows = f'<row>{cells}<c t="b"><v>1</v></c><c><f>1+1</f><v>2</v></c></row>'
    shown = "東京 | 2024-01-30 | 2024-01-30 12:00 | 7 | 18:00:00 | TRUE | 2"
    assert read_bytes("xlsx", workbook({"A": "a"}, {"a": rows}, styles, strings))["pages"] == [[None, f"# A\n\n{shown}"]]
    since_1904 = workbook({"A": "a"}, {"a": '<row><c s="1"><v>0</v></c></row>'}, styles, about='<workbookPr date1904="1"/>')
    assert "00:00:00" in str(read_bytes("xlsx", since_1904))


def test_texts_in_boxes_are_read_once_and_tables_row_by_row() -> None:
    said = "<w:p><w:r><w:t>{}</w:t></w:r></w:p>"
    box = f"<w:txbxContent>{said.format('in a box')}</w:txbxContent>"
    twice = f"<mc:AlternateContent><mc:Choice>{box}</mc:Choice><mc:Fallback>{box}</mc:Fallback></mc:AlternateContent>"
    cells = "".join(f"<w:tc>{said.format(text)}</w:tc>" for text in ("Fjord", "640"))
    body = f"<w:p><w:r><w:t>Before</w:t></w:r><w:r>{twice}</w:r></w:p><w:tbl><w:tr>{cells}</w:tr></w:tbl>"
    assert read_bytes("docx", docx_of(body))["pages"] == [[None, "Before\n\nin a box\n\nFjord | 640"]]


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
def test_what_cannot_be_read_is_explained(kind: str, data: bytes, why: str) -> None:
    assert why in str(read_bytes(kind, data)["problem"])


def test_a_bomb_is_refused_before_it_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser_program, "UNPACKED_MAX", 1_000_000)
    bomb = zipped(**{"word__document.xml": b"0" * 2_000_000})
    assert "unpacks to more" in str(read_bytes("docx", bomb)["problem"])
    monkeypatch.setattr(parser_program, "TEXT_MAX", 10)
    assert "more than 10 characters" in str(read_bytes("text", b"x" * 11)["problem"])


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
