r"""Template — the language of prompts: text, `{{name}}`, `{{> resource://prompts/other}}`, and `\{{` for a literal `{{`.

There is nothing else, on purpose: no conditions, no loops, no code. Spaces may stand within the braces, line breaks may not,
so a part of a text that begins and ends with a line never cuts a tag.
"""

import re
from dataclasses import dataclass

from agentvm.errors import shorten
from agentvm.errors.resource import ResourceInvalid

VARIABLE_NAME_MAX = 128
_OPEN = re.compile(r"\\?\{\{")
_VARIABLE = re.compile(r"[\w-]+(?:\.[\w-]+)*")
_ONLY = r"a prompt can hold {{name}}, {{> resource://prompts/name}} and, for a literal {{, \{{"


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
    """Splits a text into its parts; `ResourceInvalid` names the line of a faulty tag."""
    parts: list[TemplatePart] = []
    plain: list[str] = []
    position = 0
    while (brace := _OPEN.search(text, position)) is not None:
        plain.append(text[position : brace.start()])
        position = brace.end()
        if brace[0].startswith("\\"):
            plain.append("{{")
            continue
        close = text.find("}}", position)
        if close < 0 or "\n" in text[position:close]:
            raise _misread(text, brace.start(), "{{ has no }} on its line")
        _flush(plain, parts)
        parts.append(_tag(text, brace.start(), text[position:close]))
        position = close + 2
    plain.append(text[position:])
    _flush(plain, parts)
    return parts


def _flush(plain: list[str], parts: list[TemplatePart]) -> None:
    if text := "".join(plain):
        parts.append(text)
    plain.clear()


def _tag(text: str, at: int, inside: str) -> Variable | Include:
    plain = inside.strip()
    if plain.startswith(">"):
        return Include(plain[1:].strip())
    if len(plain) > VARIABLE_NAME_MAX or _VARIABLE.fullmatch(plain) is None:
        raise _misread(text, at, f"{{{{{shorten(inside)}}}}} is not understood")
    return Variable(plain)


def _misread(text: str, at: int, fault: str) -> ResourceInvalid:
    return ResourceInvalid(f"text, line {text.count(chr(10), 0, at) + 1}: {fault}; {_ONLY}")
