"""Bounds — the limits of an import, checked on the text before it is decoded.

A value of two or three bytes of JSON takes seventy of memory. So the text is looked at first: how many values it has and how
deep they are nested. Strings are skipped, since messages are full of commas and brackets.
"""

import re

from agentvm.errors.archive import ArchiveTooLarge

MAX_IMPORT_BYTES = 1024 * 1024 * 1024
"""Unpacked size of one import, unless `limits.importBytes` sets another."""
MAX_MESSAGE_BYTES = 32 * 1024 * 1024
"""Bytes of one message with its binary parts, as they are stored."""
MAX_SESSION_BYTES = 256 * 1024 * 1024
"""Bytes of the messages of one session; attachments are not part of them."""
MAX_SESSION_MESSAGES = 200_000
MAX_SESSION_TURNS = 200_000
MAX_SESSIONS = 60_000
"""Sessions of one import; and as many images."""
MAX_ATTACHMENTS = 60_000
MAX_FILE_CHANGES = 400_000
MAX_HEAD_BYTES = 64 * 1024 * 1024
"""Bytes of all images and sessions of one import without their messages: these are held in memory."""
MAX_HEAD_VALUES = 4_000_000
"""JSON values of the same."""
MAX_VALUES = 500_000
"""JSON values of one record."""
NESTING_MAX = 200

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_BRACKETS = re.compile(rb"[\[{]|[\]}]")
_OPENING = b"[{"


def count_values(body: bytes, most: int = MAX_VALUES) -> int:
    """Returns at least as many values as the JSON has; `ArchiveTooLarge` for more than `most`, or too deep nesting.

    Invalid JSON is counted, too: decoding it reports the fault.
    """
    values, opened = _count(body)
    if values > most or opened > NESTING_MAX:
        bare = _STRING.sub(b"", body)
        values, opened = _count(bare)
        if values > most:
            raise ArchiveTooLarge(f"A record has more than {most:,} values; nothing was written")
        if opened > NESTING_MAX:
            _check_nesting(bare)
    return values


def _count(text: bytes) -> tuple[int, int]:
    opened = text.count(b"[") + text.count(b"{")
    return text.count(b",") + opened + 1, opened


def _check_nesting(bare: bytes) -> None:
    depth = 0
    for bracket in _BRACKETS.findall(bare):
        depth += 1 if bracket in _OPENING else -1
        if depth > NESTING_MAX:
            raise ArchiveTooLarge(f"A record is nested more than {NESTING_MAX} levels deep; nothing was written")
