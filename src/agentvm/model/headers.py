"""Headers — what is sent along with requests, as one text. Pure."""

import re

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_ENCODED = re.compile(r"%([0-9A-Fa-f]{2})")
"""What it stands for must be ASCII, so each is a character of its own."""


def parse_headers(text: str) -> dict[str, str]:
    """`name=value,name=value` as headers, by small names; the values are encoded as in a URL.

    A `ValueError` says what is wrong, never what was given: it may be a secret.
    """
    found: dict[str, str] = {}
    for number, part in enumerate((part for part in text.split(",") if part.strip()), start=1):
        name, sign, value = (piece.strip() for piece in part.partition("="))
        if not sign or not _NAME.fullmatch(name):
            raise ValueError(f"entry {number} is not of the form name=value")
        plain = _ENCODED.sub(lambda found: chr(int(found[1], 16)), value)
        if not plain.isascii() or not plain.isprintable():
            raise ValueError(f"the value of entry {number} has characters that no header may have")
        found[name.lower()] = plain
    return found
