"""Parser program — the text of one document. Its source is sent into a jail and runs only there: standard library alone.

Documents are anybody's bytes. Whatever they do to a parser stays in the jail, which ends them at its limits.
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
HIDDEN = {"script", "style", "noscript", "template", "svg", "head"}
BLOCKS = {"p", "div", "section", "article", "tr", "ul", "ol", "table", "blockquote", "pre", "br", "hr", "dt", "dd", "main"}


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


def decode(data: bytes) -> str:
    for encoding in ("utf-8-sig", "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8", "gb18030"):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    raise DocumentRefused("it is not text in UTF-8, UTF-16 or GB18030")


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
    text = decode(data)
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
        raise DocumentRefused("it is damaged, or not of the kind that its name says") from None
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


def word(data: bytes) -> Read:
    opened = archive(data)
    lines: list[str] = []
    for paragraph in member(opened, "word/document.xml").iter(W + "p"):
        text = "".join(
            "\t" if node.tag == W + "tab" else "\n" if node.tag == W + "br" else node.text or ""
            for node in paragraph.iter()
            if node.tag in (W + "t", W + "tab", W + "br")
        )
        style = paragraph.find(f"{W}pPr/{W}pStyle")
        named = re.fullmatch(r"(?:Heading|heading |标题 ?)?([1-6])", "" if style is None else style.get(W + "val") or "")
        if text.strip():
            lines.append(f"{'#' * int(named[1])} {text}" if named else text)
    return [(None, "\n\n".join(lines))], None


def slides(data: bytes) -> Read:
    opened = archive(data)
    slide_names = sorted(
        (int(name[16:-4]), name) for name in opened.namelist() if re.fullmatch(r"ppt/slides/slide\d+\.xml", name)
    )
    pages: list[tuple[int | None, str]] = []
    for number, name in slide_names:
        lines = ["".join(run.text or "" for run in paragraph.iter(A + "t")) for paragraph in member(opened, name).iter(A + "p")]
        pages.append((number, "\n".join(line for line in lines if line.strip())))
    return pages, None


def sheets(data: bytes) -> Read:
    opened = archive(data)
    strings: list[str] = []
    if "xl/sharedStrings.xml" in opened.namelist():
        shared = member(opened, "xl/sharedStrings.xml")
        strings = ["".join(node.text or "" for node in entry.iter(S + "t")) for entry in shared.iter(S + "si")]
    named = [sheet.get("name") for sheet in member(opened, "xl/workbook.xml").iter(S + "sheet")]
    sheet_names = sorted(
        (int(name[19:-4]), name) for name in opened.namelist() if re.fullmatch(r"xl/worksheets/sheet\d+\.xml", name)
    )
    parts: list[str] = []
    for place, (number, name) in enumerate(sheet_names):
        rows: list[str] = []
        for row in member(opened, name).iter(S + "row"):
            cells: list[str] = []
            for cell in row.iter(S + "c"):
                value = "".join(node.text or "" for node in cell.iter() if node.tag in (S + "v", S + "t"))
                is_shared = cell.get("t") == "s" and value.isdigit() and int(value) < len(strings)
                cells.append(strings[int(value)] if is_shared else value)
            if any(cells):
                rows.append(" | ".join(cells))
        parts.append(f"# {named[place] if place < len(named) else number}\n\n" + "\n".join(rows))
    return [(None, "\n\n".join(parts))], None


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
        sheet = opened[number].get_textpage()
        pages.append((number + 1, sheet.get_text_range().replace("\r\n", "\n").replace("\0", "")))
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
        return {"problem": f"it has more than {TEXT_MAX:,} characters"}
    return {"pages": [[number, clean(text)] for number, text in pages], "title": title and clean(title[:TITLE_MAX])}


def clean(text: str) -> str:
    """Returns a text that can be sent and stored: halves of characters and NUL, one for one, are replaced."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode()


def run(kind: str) -> dict[str, object]:
    """Reads the document in the folder of inputs."""
    with open(os.path.join(os.environ["AVM_IN"], "document"), "rb") as file:
        return read_bytes(kind, file.read())
