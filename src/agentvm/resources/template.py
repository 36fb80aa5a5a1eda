r"""Template — what a prompt is written in: text, `{{name}}`, `{{> resource://prompts/other}}`, and `\{{` for a literal `{{`.

There is nothing else, on purpose: no conditions, no loops, no code. Spaces may stand within the braces, line breaks may not, so
a part of a text that begins and ends with a line never cuts a tag.
"""

import re
from dataclasses import dataclass

from agentvm.errors import shorten
from agentvm.errors.resource import ResourceInvalid

MAX_NAME = 128
_OPEN = re.compile(r"\\?\{\{")
_VARIABLE = re.compile(r"[\w-]+(?:\.[\w-]+)*")
_ONLY = r"a prompt knows {{name}}, {{> resource://prompts/name}} and, for a literal {{, \{{"


@dataclass(frozen=True, slots=True)
class Variable:
    """Dots look into objects."""

    name: str

    @property
    def path(self) -> list[str]:
        return self.name.split(".")


@dataclass(frozen=True, slots=True)
class Include:
    uri: str


TemplatePart = str | Variable | Include


def parse(text: str) -> list[TemplatePart]:
    """`ResourceInvalid` names the line of what is not understood."""
    parts: list[TemplatePart] = []
    plain: list[str] = []
    done = 0
    while (found := _OPEN.search(text, done)) is not None:
        plain.append(text[done : found.start()])
        done = found.end()
        if found[0].startswith("\\"):
            plain.append("{{")
            continue
        close = text.find("}}", done)
        if close < 0 or "\n" in text[done:close]:
            raise _misread(text, found.start(), "{{ has no }} on its line")
        _flush(plain, parts)
        parts.append(_tag(text, found.start(), text[done:close]))
        done = close + 2
    plain.append(text[done:])
    _flush(plain, parts)
    return parts


def _flush(plain: list[str], parts: list[TemplatePart]) -> None:
    if whole := "".join(plain):
        parts.append(whole)
    plain.clear()


def _tag(text: str, at: int, inside: str) -> Variable | Include:
    plain = inside.strip()
    if plain.startswith(">"):
        return Include(plain[1:].strip())
    if len(plain) > MAX_NAME or _VARIABLE.fullmatch(plain) is None:
        raise _misread(text, at, f"{{{{{shorten(inside)}}}}} is not understood")
    return Variable(plain)


def _misread(text: str, at: int, what: str) -> ResourceInvalid:
    return ResourceInvalid(f"text, line {text.count(chr(10), 0, at) + 1}: {what}; {_ONLY}")
