"""Plain text — the words of a Markdown text, for a line of a list. It need not be exact, but must be quick and lose no word."""

import re

_FENCE = re.compile(r"^[ \t]{0,3}(?:```|~~~).*$", re.MULTILINE)
_RULE = re.compile(r"^[ \t|:]*(?:[-*_=][ \t|:]*){3,}$", re.MULTILINE)
_LEAD = re.compile(r"^[ \t]*(?:#{1,6}[ \t]+|(?:>[ \t]?)+|[-*+][ \t]+(?:\[[ xX]\][ \t]+)?)", re.MULTILINE)
_LINK = re.compile(r"!?\[([^\[\]\n]*)\](?:\([^()\n]*\)|\[[^\[\]\n]*\])")
_MARKS = re.compile(r"(?<!\\)(?:\*\*|__(?=\S)|(?<=\S)__|~~|`+|(?<![\w*])\*(?=\S)|(?<=\S)\*(?![\w*]))")
_ESCAPE = re.compile(r"\\([\\`*_{}\[\]()#+.!|~>-])")


def plain_text(markdown: str) -> str:
    """Returns the text without the marks of headings, lists, quotes, emphasis, code, links and tables."""
    text = _FENCE.sub("", markdown)
    text = _RULE.sub("", text)
    text = _LEAD.sub("", text)
    text = _LINK.sub(r"\1", text)
    text = _MARKS.sub("", text)
    text = _ESCAPE.sub(r"\1", text)
    return text.replace("|", " ") if "\n|" in f"\n{markdown}" else text
