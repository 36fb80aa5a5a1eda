"""Feishu frame — the frames of Feishu's long connection: one small protobuf message, read and written by hand. Pure.

1 SeqID uint64 · 2 LogID uint64 · 3 service int32 · 4 method int32 · 5 headers {1 key, 2 value}
6 payload_encoding · 7 payload_type · 8 payload bytes · 9 LogIDNew
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

CONTROL_CODE, DATA_CODE = 0, 1
"""The methods of frames: pings and pongs, and events."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_VARINT_MAX = 2**64


@dataclass(frozen=True, slots=True)
class FeishuFrame:
    """A frame. A reply to one repeats its numbers and headers."""

    seq_id: int = 0
    log_id: int = 0
    service: int = 0
    method: int = CONTROL_CODE
    headers: dict[str, str] = field(default_factory=dict)
    payload: bytes = b""
    payload_encoding: str = ""
    payload_type: str = ""
    log_id_new: str = ""


def encode_frame(frame: FeishuFrame) -> bytes:
    numbers = (frame.seq_id, frame.log_id, frame.service, frame.method)
    parts = [_key(number, _VARINT) + _varint(value) for number, value in enumerate(numbers, 1)]
    for name, value in frame.headers.items():
        parts.append(_field(5, _field(1, name.encode()) + _field(2, value.encode())))
    for number, content in (
        (6, frame.payload_encoding.encode()),
        (7, frame.payload_type.encode()),
        (8, frame.payload),
        (9, frame.log_id_new.encode()),
    ):
        if content:
            parts.append(_field(number, content))
    return b"".join(parts)


def decode_frame(data: bytes) -> FeishuFrame | None:
    """Returns a frame; None for bytes that are none. Fields that it does not know are skipped."""
    try:
        numbers, texts, headers = dict[int, int](), dict[int, bytes](), dict[str, str]()
        for number, value in _fields(data):
            if isinstance(value, int):
                numbers[number] = value
            elif number == 5:
                header = dict(_fields(value))
                headers[_text(header.get(1))] = _text(header.get(2))
            else:
                texts[number] = value
        return FeishuFrame(
            seq_id=numbers.get(1, 0),
            log_id=numbers.get(2, 0),
            service=numbers.get(3, 0),
            method=numbers.get(4, 0),
            headers=headers,
            payload_encoding=_text(texts.get(6, b"")),
            payload_type=_text(texts.get(7, b"")),
            payload=texts.get(8, b""),
            log_id_new=_text(texts.get(9, b"")),
        )
    except (ValueError, IndexError):
        return None


def _text(value: int | bytes | None) -> str:
    if not isinstance(value, bytes):
        raise ValueError("a text is expected")
    return value.decode()


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _read_varint(data, at)
            yield number, value
            continue
        if kind == _BYTES:
            size, at = _read_varint(data, at)
        else:
            size = {_FIXED64: 8, _FIXED32: 4}[kind] if kind in (_FIXED64, _FIXED32) else len(data) + 1
        if at + size > len(data):
            raise ValueError("a field is cut off")
        yield number, data[at : at + size]
        at += size


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >= _VARINT_MAX:
                raise ValueError("a number is too large")
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number is too long")


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _key(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


def _field(number: int, content: bytes) -> bytes:
    return _key(number, _BYTES) + _varint(len(content)) + content
