"""Plain text — the words of a Markdown text, for a line of a list. Not exact, but fast, and keeps every word."""

import re

_FENCE = re.compile(r"^[ \t]{0,3}(?:```|~~~).*$", re.MULTILINE)
_RULE = re.compile(r"^[ \t|:]*(?:[-*_=][ \t|:]*){3,}$", re.MULTILINE)
_LEAD = re.compile(r"^[ \t]*(?:#{1,6}[ \t]+|(?:>[ \t]?)+|[-*+][ \t]+(?:\[[ xX]\][ \t]+)?)", re.MULTILINE)
_LINK = re.compile(r"!?\[([^\[\]\n]*)\](?:\([^()\n]*\)|\[[^\[\]\n]*\])")
_MARKS = re.compile(r"(?<!\\)(?:\*\*|__(?=\S)|(?<=\S)__|~~|`+|(?<![\w*])\*(?=\S)|(?<=\S)\*(?![\w*]))")
_ESCAPE = re.compile(r"\\([\\`*_{}\[\]()#+.!|~>-])")

_STEPS = (
    (_FENCE, "", ("```", "~~~")),
    (_RULE, "", "-*_="),
    (_LEAD, "", "#>-*+"),
    (_LINK, r"\1", ("](", "][")),
    (_MARKS, "", ("*", "__", "~~", "`")),
    (_ESCAPE, r"\1", "\\"),
)
"""Patterns, their replacements, and the signs without which a pattern cannot match: a search for those takes no time."""


def plain_text(markdown: str) -> str:
    """Returns the text without the marks of headings, lists, quotes, emphasis, code, links and tables."""
    text = markdown
    for pattern, words, signs in _STEPS:
        if any(sign in text for sign in signs):
            text = pattern.sub(words, text)
    return text.replace("|", " ") if "\n|" in f"\n{markdown}" else text
