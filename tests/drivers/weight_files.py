"""Files that begin as weights do: a header with members, and no model."""

import struct


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def gguf(template: str | None) -> bytes:
    """A header with members of every kind, and the chat template behind them."""
    members = [
        text(b"general.name") + struct.pack("<I", 8) + text(b"tools"),
        text(b"block_count") + struct.pack("<II", 4, 30),
        text(b"tokens") + struct.pack("<IIQ", 9, 8, 2) + text(b"a") + text(b"bc"),
        text(b"scores") + struct.pack("<IIQ2f", 9, 6, 2, 0.5, 1.5),
    ]
    if template is not None:
        members.append(text(b"tokenizer.chat_template") + struct.pack("<I", 8) + text(template.encode()))
    return struct.pack("<4sIQQ", b"GGUF", 3, 0, len(members)) + b"".join(members)
