"""Headers — request headers written as one text. Pure."""

import re

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_ENCODED = re.compile(r"%([0-9A-Fa-f]{2})")
"""An escape; it stands for one ASCII character."""


def parse_headers(text: str) -> dict[str, str]:
    """Parses `name=value,name=value` into headers with lower-case names; the values are encoded as in a URL.

    A `ValueError` names the fault and never the text: it may be a secret.
    """
    headers: dict[str, str] = {}
    for number, part in enumerate((part for part in text.split(",") if part.strip()), start=1):
        name, sign, value = (piece.strip() for piece in part.partition("="))
        if not sign or not _NAME.fullmatch(name):
            raise ValueError(f"entry {number} is not of the form name=value")
        plain = _ENCODED.sub(lambda headers: chr(int(headers[1], 16)), value)
        if not plain.isascii() or not plain.isprintable():
            raise ValueError(f"the value of entry {number} has characters that no header may have")
        headers[name.lower()] = plain
    return headers
