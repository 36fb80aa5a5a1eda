"""Readable — the text of a web page: headings, paragraphs, lists, tables, links and code, as Markdown-like lines.

Pages are a stranger's, and the parser of the standard library takes quadratic time for some: it is fed in pieces, and stopped
when its unfinished part grows, or when its time is over. Text that only a browser would hide is left in.
"""

import re
import time
from collections.abc import Callable
from html.parser import HTMLParser
from urllib.parse import urljoin

PAGE_MAX = 2_000_000
"""Characters of a page that are read."""
SECONDS_MAX = 2.0
_PIECE_BYTES = 16 * 1024
_UNFINISHED_MAX = 256 * 1024
_DEPTH_MAX = 200
_HIDDEN = frozenset({"script", "style", "noscript", "template", "svg", "math", "iframe", "object", "canvas", "select"})
_BLOCKS = frozenset({
    "address", "article", "aside", "blockquote", "dd", "details", "div", "dl", "dt", "fieldset", "figcaption", "figure",
    "footer", "form", "header", "hr", "main", "nav", "ol", "p", "pre", "section", "summary", "table", "tr", "ul",
})  # fmt: skip
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}


class _Text(HTMLParser):
    """Collects the lines of a page."""

    def __init__(self, url: str) -> None:
        super().__init__(convert_charrefs=True)
        self.title = ""
        self.lines: list[str] = []
        self._url = url
        self._line: list[str] = []
        self._hidden: list[str] = []
        self._in_title = False
        self._plain = 0
        """Depth of elements whose blanks count."""
        self._link: tuple[str, int] | None = None

    @property
    def unfinished(self) -> int:
        return len(self.rawdata)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "title" and not self.title:
            self._in_title = True
        if tag in _HIDDEN and len(self._hidden) < _DEPTH_MAX:
            self._hidden.append(tag)
        if self._hidden:
            return
        if tag in _HEADINGS:
            self._end_line()
            self.lines.append("")
            self._line.append(f"{_HEADINGS[tag]} ")
        elif tag == "li":
            self._end_line()
            self._line.append("- ")
        elif tag == "br":
            self._end_line()
        elif tag in ("td", "th"):
            self._line.append(" | " if self._line else "")
        elif tag in _BLOCKS:
            self._end_line()
            if tag in ("p", "pre", "table", "blockquote"):
                self.lines.append("")
        elif tag == "img" and (text := dict(attrs).get("alt")):
            self._line.append(f"[image: {text}]")
        elif tag == "a" and (target := dict(attrs).get("href")):
            self._link = (target, len(self._line))
        self._plain += tag == "pre"

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        if self._hidden:
            # An end tag closes the element it names, with all that was left open inside.
            if tag in self._hidden:
                while self._hidden.pop() != tag:
                    pass
            return
        if tag == "a" and self._link is not None:
            self._end_link()
        if tag in _BLOCKS or tag in _HEADINGS or tag == "li":
            self._end_line()
        if tag == "pre":
            self._plain = max(0, self._plain - 1)

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title = (self.title + data)[:300]
        if self._hidden or self._in_title:
            return
        if self._plain:
            first, *rest = data.split("\n")
            self._line.append(first)
            for line in rest:
                self._end_line(keep=True)
                self._line.append(line)
        else:
            self._line.append(re.sub(r"\s+", " ", data))

    def _end_link(self) -> None:
        assert self._link is not None
        (target, start), self._link = self._link, None
        text = "".join(self._line[start:]).strip()
        address = _absolute(self._url, target)
        if text and address and address != text:
            self._line[start:] = [f"[{text}]({address})"]

    def _end_line(self, *, keep: bool = False) -> None:
        line = "".join(self._line)
        self._line.clear()
        self._link = None
        if keep or (self._plain and line.strip()):
            self.lines.append(line)
        elif line := re.sub(r"[ \t]+", " ", line).strip():
            self.lines.append(line)

    def finish(self) -> str:
        self._end_line()
        return re.sub(r"\n{3,}", "\n\n", "\n".join(self.lines)).strip()


def _absolute(url: str, target: str) -> str | None:
    try:
        address = urljoin(url, target.strip())
    except ValueError:
        return None
    return address if address.startswith(("http://", "https://")) and len(address) <= 2_000 else None


def readable(page: str, url: str, *, clock: Callable[[], float] = time.monotonic) -> tuple[str, str]:
    """Returns the title and the text of a page. A page that is too long or takes too long is cut."""
    parser = _Text(url)
    deadline = clock() + SECONDS_MAX
    page = page[:PAGE_MAX]
    for start in range(0, len(page), _PIECE_BYTES):
        parser.feed(page[start : start + _PIECE_BYTES])
        if parser.unfinished > _UNFINISHED_MAX or clock() > deadline:
            break
    if parser.unfinished <= _PIECE_BYTES:
        parser.close()
    return re.sub(r"\s+", " ", parser.title).strip(), parser.finish()
