"""Sections — the parts of a Markdown text, by the slugs of their headings.

A slug is made as on GitHub: lower case, spaces become hyphens, everything but letters, digits, hyphens and underscores is
removed; Chinese characters are letters. The second heading of the same slug ends in `-1`, the third in `-2`. Headings are
lines that begin with one to six `#`; lines within fenced code are not.
"""

import re
from collections.abc import Iterator

_HEADING = re.compile(r" {0,3}(#{1,6})(?=[ \t]|$)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


def slug(heading: str) -> str:
    text = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return text.replace(" ", "-")


def section(text: str, slug_name: str) -> str | None:
    """Returns the text under a heading, up to the next heading of the same or a higher level; None without the heading.

    The heading itself is left out, so that the text can stand under another one, and so are blank lines around it.
    """
    lines = text.split("\n")
    begin: tuple[int, int] | None = None
    for number, level, name in _headings(lines):
        if begin is not None and level <= begin[1]:
            return "\n".join(lines[begin[0] + 1 : number]).strip("\r\n")
        if begin is None and name == slug_name.lower():
            begin = number, level
    return None if begin is None else "\n".join(lines[begin[0] + 1 :]).strip("\r\n")


def section_names(text: str) -> list[str]:
    return [name for _, _, name in _headings(text.split("\n"))]


def _headings(lines: list[str]) -> Iterator[tuple[int, int, str]]:
    """The line, the level and the slug of each."""
    fence = ""
    seen: dict[str, int] = {}
    for number, line in enumerate(lines):
        if (mark := _FENCE.match(line)) is not None:
            if not fence:
                fence = mark[1]
            elif mark[1].startswith(fence) and not line[mark.end() :].strip():
                fence = ""
        elif not fence and (heading := _HEADING.match(line.rstrip())) is not None:
            name = slug(_without_closing(line[heading.end() :].strip()))
            count = seen.get(name, 0)
            seen[name] = count + 1
            yield number, len(heading[1]), f"{name}-{count}" if count else name


def _without_closing(heading: str) -> str:
    """`Heading ##` is `Heading`, but `C#` stays."""
    bare = heading.rstrip("#")
    return bare.rstrip() if not bare or bare[-1] in " \t" else heading
