"""Parser program — the text of one document. Its source is sent into a jail and runs only there: standard library alone.

Documents are untrusted. Their effects on a parser stay in the jail, which ends it at its limits.
"""

import csv
import email
import email.policy
import importlib
import io
import json
import os
import re
import sys
import zipfile
import zlib
from collections.abc import Iterator
from datetime import datetime, timedelta
from html.parser import HTMLParser
from xml.etree import ElementTree

UNPACKED_MAX = 100 * 1024 * 1024
PACKAGES = "packages"
PIECE_CHARACTERS = 16 * 1024
TITLE_MAX = 1_000
"""Characters of a title: each passage has it."""
TEXT_MAX = 12 * 1024 * 1024
W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
S = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
DATE_FORMATS = {*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)}
"""Numbers of Excel's own formats of dates and times, also of its Chinese and Japanese editions."""
# Not "head": its end tag may be left out, and nothing else in it is shown.
HIDDEN = {"script", "style", "noscript", "template", "svg"}
BLOCKS = {"p", "div", "section", "article", "tr", "ul", "ol", "table", "blockquote", "pre", "br", "hr", "dt", "dd", "main"}


PAIRS = re.compile(rb"[\x81-\xfe][0-9][\x81-\xfe][0-9]|[\x81-\xfe][\x40-\x7e\x80-\xfe]|[\x80-\xff]")
"""Bytes that GB18030 takes for one character, or a byte that is none."""
USUAL_PAIR = re.compile(rb"[\xa1\xa3\xb0-\xd7][\xa1-\xfe]")
"""Punctuation and the most frequent Chinese characters, of which Chinese texts mostly consist."""
LETTERS_TO_ACCENTED_MIN = 3
"""Plain letters for each accented one in a text of a Western language."""
SAMPLE_BYTES = 50_000
CHARSET = re.compile(rb"<meta[^>]{0,200}charset=[\"']?([\w-]{1,40})", re.IGNORECASE)
CHARSET_WITHIN_BYTES = 4_096

Read = tuple[list[tuple[int | None, str]], str | None]
"""Pages, each with its number if it has one, and the title."""


class DocumentRefused(ValueError):
    """A document that cannot be read; the text says why."""


class PageText(HTMLParser):
    """The text of an HTML page, headings as Markdown."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.hidden, self.title, self.in_title = 0, "", False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "title":
            self.in_title = True
        elif tag in HIDDEN:
            self.hidden += 1
        elif len(tag) == 2 and tag[0] == "h" and tag[1] in "123456":
            self.parts.append("\n\n" + "#" * int(tag[1]) + " ")
        elif tag == "li":
            self.parts.append("\n- ")
        elif tag in ("td", "th"):
            self.parts.append(" | ")
        elif tag in BLOCKS:
            self.parts.append("\n" if tag in ("br", "tr") else "\n\n")

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self.in_title = False
        elif tag in HIDDEN:
            self.hidden = max(0, self.hidden - 1)
        elif tag in BLOCKS or (len(tag) == 2 and tag[0] == "h"):
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        if self.in_title:
            self.title += data
        elif not self.hidden:
            self.parts.append(re.sub(r"\s+", " ", data))


def decode(data: bytes, declared: str | None = None) -> str:
    """Returns the text of bytes; `declared` is the encoding that they name themselves."""
    is_utf16 = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    for encoding in ("utf-8-sig", "utf-16" if is_utf16 else None, declared):
        try:
            if encoding is not None:
                return data.decode(encoding)
        except (UnicodeError, LookupError):
            continue
    try:
        return data.decode(likely_encoding(data))
    except UnicodeError:
        raise DocumentRefused("it is not text in UTF-8, UTF-16, GB18030 or Windows-1252") from None


def likely_encoding(data: bytes) -> str:
    """Returns the encoding of bytes that are not UTF-8. Almost any bytes can be read as Chinese, so their letters decide."""
    first = re.search(rb"[\x80-\xff]", data)
    start = max(0, first.start() - SAMPLE_BYTES) if first else 0
    sample = data[start : start + 2 * SAMPLE_BYTES]
    pairs = PAIRS.findall(sample)
    usual = sum(USUAL_PAIR.match(pair) is not None for pair in pairs)
    if 2 * usual >= len(pairs):
        return "gb18030"
    plain_letters, accented = re.findall(rb"[A-Za-z]", sample), re.findall(rb"[\x80-\xff]", sample)
    return "cp1252" if len(plain_letters) >= LETTERS_TO_ACCENTED_MIN * len(accented) else "ascii"


def plain(data: bytes) -> Read:
    text = decode(data)
    if "\0" in text:
        raise DocumentRefused("it is not text: it contains NUL bytes")
    return [(None, text)], None


def table(data: bytes) -> Read:
    text = decode(data)
    csv.field_size_limit(2**31 - 1)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter="\t" if "\t" in text.partition("\n")[0] else ",")
    return [(None, "\n".join(" | ".join(cell.strip() for cell in row) for row in rows if any(row)))], None


def structured(data: bytes) -> Read:
    try:
        return [(None, json.dumps(json.loads(decode(data)), ensure_ascii=False, indent=1))], None
    except (ValueError, RecursionError) as error:
        raise DocumentRefused(f"it is not valid JSON: {error}") from None


def page(data: bytes) -> Read:
    reader = PageText()
    charset = CHARSET.search(data[:CHARSET_WITHIN_BYTES])
    text = decode(data, charset and charset[1].decode())
    # In pieces: the time that it takes grows faster than what it is given at once.
    for start in range(0, len(text), PIECE_CHARACTERS):
        reader.feed(text[start : start + PIECE_CHARACTERS])
    reader.close()
    text = re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]*\n[ \t]*", "\n", "".join(reader.parts)))
    return [(None, text.strip())], " ".join(reader.title.split()) or None


def mail(data: bytes) -> Read:
    message = email.message_from_bytes(data, policy=email.policy.default)
    body = message.get_body(preferencelist=("plain", "html"))
    if body is None:
        raise DocumentRefused("the message has no text")
    content = body.get_content().replace("\r\n", "\n")
    if body.get_content_subtype() == "html":
        content = page(content.encode())[0][0][1]
    about = "\n".join(f"{name}: {message[name]}" for name in ("From", "To", "Date", "Subject") if message[name])
    return [(None, f"{about}\n\n{content}")], str(message["Subject"] or "") or None


def archive(data: bytes) -> zipfile.ZipFile:
    try:
        opened = zipfile.ZipFile(io.BytesIO(data))
    except zipfile.BadZipFile:
        raise DocumentRefused("it is damaged, or its name has the wrong extension") from None
    if sum(entry.file_size for entry in opened.infolist()) > UNPACKED_MAX:
        raise DocumentRefused(f"it unpacks to more than {UNPACKED_MAX // 2**20} MiB")
    return opened


def member(opened: zipfile.ZipFile, name: str) -> ElementTree.Element:
    # What its header says of its size need not be true.
    with opened.open(name) as file:
        body = file.read(UNPACKED_MAX + 1)
    if len(body) > UNPACKED_MAX:
        raise DocumentRefused(f"it unpacks to more than {UNPACKED_MAX // 2**20} MiB")
    return ElementTree.fromstring(body)


def parts_in_order(opened: zipfile.ZipFile, index: str, entries: list[ElementTree.Element], names: str) -> list[str]:
    """Returns the names of the members that the entries of an index refer to; their numbers say nothing of their order."""
    folder, _, name = index.rpartition("/")
    relations = f"{folder}/_rels/{name}.rels"
    if relations not in opened.namelist():
        return sorted(
            filter(re.compile(names).fullmatch, opened.namelist()), key=lambda member_name: (len(member_name), member_name)
        )
    targets = {relation.get("Id"): relation.get("Target") or "" for relation in member(opened, relations)}
    paths = (targets.get(entry.get(R + "id"), "") for entry in entries)
    return [path[1:] if path.startswith("/") else f"{folder}/{path}" for path in paths]


def word(data: bytes) -> Read:
    root = member(archive(data), "word/document.xml")
    return [(None, "\n\n".join(blocks(root)))], None


def blocks(node: ElementTree.Element) -> Iterator[str]:
    """Yields the paragraphs and the tables below a node of a text document."""
    for child in node:
        if child.tag == W + "tbl":
            rows = [[" ".join(blocks(cell)) for cell in row.findall(W + "tc")] for row in child.findall(W + "tr")]
            yield "\n".join(" | ".join(row) for row in rows if any(row))
        elif child.tag == W + "p":
            boxes: list[ElementTree.Element] = []
            text = "".join(runs(child, boxes))
            style = child.find(f"{W}pPr/{W}pStyle")
            named = re.fullmatch(r"(?:Heading|heading |标题 ?)?([1-6])", "" if style is None else style.get(W + "val") or "")
            if text.strip():
                yield f"{'#' * int(named[1])} {text}" if named else text
            for box in boxes:
                yield from blocks(box)
        elif child.tag != FALLBACK:
            yield from blocks(child)


def runs(node: ElementTree.Element, boxes: list[ElementTree.Element]) -> Iterator[str]:
    """Yields the pieces of a paragraph; texts in boxes stand beside it, and are collected."""
    for child in node:
        if child.tag == W + "txbxContent":
            boxes.append(child)
        elif child.tag == W + "t":
            yield child.text or ""
        elif child.tag in (W + "tab", W + "br"):
            yield "\t" if child.tag == W + "tab" else "\n"
        # A fallback repeats what stands before it, for older programs.
        elif child.tag not in (FALLBACK, W + "pPr"):
            yield from runs(child, boxes)


def slides(data: bytes) -> Read:
    opened, index = archive(data), "ppt/presentation.xml"
    entries = [*member(opened, index).iter(P + "sldId")] if index in opened.namelist() else []
    pages: list[tuple[int | None, str]] = []
    for number, name in enumerate(parts_in_order(opened, index, entries, r"ppt/slides/slide\d+\.xml"), 1):
        lines = ["".join(run.text or "" for run in paragraph.iter(A + "t")) for paragraph in member(opened, name).iter(A + "p")]
        pages.append((number, "\n".join(line for line in lines if line.strip())))
    return pages, None


def sheets(data: bytes) -> Read:
    opened, index = archive(data), "xl/workbook.xml"
    strings: list[str] = []
    if "xl/sharedStrings.xml" in opened.namelist():
        strings = [cell_text(entry) for entry in member(opened, "xl/sharedStrings.xml").iter(S + "si")]
    workbook, dated = member(opened, index), date_styles(opened)
    is_1904 = any(properties.get("date1904") in ("1", "true") for properties in workbook.iter(S + "workbookPr"))
    epoch = datetime(1904, 1, 1) if is_1904 else datetime(1899, 12, 30)
    entries = [*workbook.iter(S + "sheet")]
    parts: list[str] = []
    for place, name in enumerate(parts_in_order(opened, index, entries, r"xl/worksheets/sheet\d+\.xml")):
        if "/worksheets/" not in name:
            continue
        rows: list[str] = []
        for row in member(opened, name).iter(S + "row"):
            cells: list[str] = []
            for cell in row.iter(S + "c"):
                value, kind = cell_text(cell), cell.get("t", "n")
                if kind == "s" and value.isdigit() and int(value) < len(strings):
                    value = strings[int(value)]
                elif kind == "b":
                    value = {"1": "TRUE", "0": "FALSE"}.get(value, value)
                elif kind == "n" and cell.get("s") in dated:
                    value = date_of(value, epoch)
                cells.append(value)
            if any(cells):
                rows.append(" | ".join(cells))
        parts.append(f"# {entries[place].get('name') if place < len(entries) else place + 1}\n\n" + "\n".join(rows))
    return [(None, "\n\n".join(parts))], None


def cell_text(node: ElementTree.Element) -> str:
    """Returns the text or the number of a cell, without the readings that may stand beside Chinese characters."""
    return "".join(
        (child.text or "") if child.tag in (S + "v", S + "t") else cell_text(child)
        for child in node
        if child.tag not in (S + "f", S + "rPh")
    )


def date_styles(opened: zipfile.ZipFile) -> set[str]:
    """Returns the numbers of the styles by which a number is shown as a date or a time."""
    if "xl/styles.xml" not in opened.namelist():
        return set()
    styles = member(opened, "xl/styles.xml")
    codes = {
        number_format.get("numFmtId"): number_format.get("formatCode") or "" for number_format in styles.iter(S + "numFmt")
    }
    dated: set[str] = set()
    for place, form in enumerate(styles.iterfind(f"{S}cellXfs/{S}xf")):
        number = form.get("numFmtId") or "0"
        code = re.sub(r'"[^"]*"|\\.|\[[^\]]*\]|General', "", codes.get(number, ""))
        is_span = re.search(r"\[[hms]+\]", codes.get(number, ""))
        if not is_span and (re.search("[ymdhs]", code) if number in codes else int(number) in DATE_FORMATS):
            dated.add(str(place))
    return dated


def date_of(value: str, epoch: datetime) -> str:
    """Returns the date, the time or both that a number of a sheet means."""
    try:
        days = float(value)
        moment = epoch + timedelta(seconds=round(days * 86_400))
    except (ValueError, OverflowError):
        return value
    if days < 1:
        return f"{moment:%H:%M:%S}"
    return f"{moment:%Y-%m-%d}" if days == int(days) else f"{moment:%Y-%m-%d %H:%M}"


def portable(data: bytes) -> Read:
    # The packages of the extra lie in the workspace of the jail.
    sys.path.insert(0, os.path.join(os.getcwd(), PACKAGES))
    pdfium = importlib.import_module("pypdfium2")
    try:
        opened = pdfium.PdfDocument(data)
    except pdfium.PdfiumError as error:
        raise DocumentRefused(
            "it is locked by a password" if "password" in str(error).lower() else "it is not a PDF, or it is damaged"
        ) from None
    pages: list[tuple[int | None, str]] = []
    for number in range(len(opened)):
        try:
            text = opened[number].get_textpage().get_text_range()
        except pdfium.PdfiumError:
            raise DocumentRefused(f"its page {number + 1} is damaged") from None
        pages.append((number + 1, text.replace("\r\n", "\n").replace("\0", "")))
    if not any(text.strip() for _, text in pages):
        raise DocumentRefused("it has no text: its pages are pictures")
    return pages, (opened.get_metadata_dict().get("Title") or "").strip() or None


READERS = {
    "text": plain,
    "csv": table,
    "json": structured,
    "html": page,
    "eml": mail,
    "docx": word,
    "pptx": slides,
    "xlsx": sheets,
    "pdf": portable,
}


DAMAGES = (
    ValueError, LookupError, TypeError, AttributeError, AssertionError, ArithmeticError, OSError, EOFError, RecursionError,
    NotImplementedError, SyntaxError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""Exceptions of the standard library about bytes that it does not expect."""


def read_bytes(kind: str, data: bytes) -> dict[str, object]:
    """Returns the pages of a document, each with its number if it has one, and its title; or its problem."""
    try:
        pages, title = READERS[kind](data)
    except DocumentRefused as error:
        return {"problem": str(error)}
    except DAMAGES as error:
        return {"problem": f"it is damaged: {type(error).__name__}"}
    if sum(len(text) for _, text in pages) > TEXT_MAX:
        return {"problem": f"it has more than {TEXT_MAX:,} characters; split it into several documents"}
    return {"pages": [[number, clean(text)] for number, text in pages], "title": title and clean(title[:TITLE_MAX])}


def clean(text: str) -> str:
    """Returns a text that can be sent and stored: halves of characters and NUL, one for one, are replaced."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode()


def run(kind: str) -> None:
    """Reads the document in the folder of inputs, and writes the result of `read_bytes` to the standard output, as JSON."""
    with os.fdopen(os.dup(1), "wb") as out:
        # Whatever a parser prints is no part of it.
        os.dup2(2, 1)
        with open(os.path.join(os.environ["AVM_IN"], "document"), "rb") as file:
            out.write(json.dumps(read_bytes(kind, file.read()), ensure_ascii=False).encode())
