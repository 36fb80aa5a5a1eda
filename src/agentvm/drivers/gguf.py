"""GGUF — reads the header of weights: whether a model can be told of tools, and whether it was made to embed."""

import mmap
import struct
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

_TEMPLATE = b"tokenizer.chat_template"
_POOLING = b".pooling_type"
_HEADER = struct.Struct("<4sIQQ")
_TYPE = struct.Struct("<I")
_COUNT = struct.Struct("<Q")
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of a value, by the number of its type."""
_STRING_CODE = 8
_ARRAY_CODE = 9


def knows_tools(path: Path) -> bool:
    """Returns whether the model's own chat template has a place for tools. Blocks; the answer is kept while the file stays."""
    stat = path.stat()
    return _knows_tools(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=64)
def _knows_tools(path: Path, mtime_ns: int, size: int) -> bool:
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return any(key == _TEMPLATE and b"tools" in value for key, value in _members(content))
    except (OSError, ValueError, OverflowError, struct.error):
        return False


def has_pooling(path: Path) -> bool:
    """Returns whether the file says how vectors of texts are made, as those of embedding models do. Blocks."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return any(key.endswith(_POOLING) for key, _ in _members(content))
    except (OSError, ValueError, OverflowError, struct.error):
        return False


def _members(content: mmap.mmap) -> Iterator[tuple[bytes, bytes]]:
    """Yields the members of the header, with the values of those that are texts.

    Every step moves on, so the length of the file is a bound.
    """
    magic, _, _, count = _HEADER.unpack_from(content)
    if magic != b"GGUF":
        raise ValueError("not a GGUF file")
    place = _HEADER.size
    for _ in range(count):
        key, place = _text(content, place)
        (kind,) = _TYPE.unpack_from(content, place)
        place += _TYPE.size
        if kind == _STRING_CODE:
            value, place = _text(content, place)
            yield key, value
        else:
            place = _after_array(content, place) if kind == _ARRAY_CODE else place + _size(kind)
            yield key, b""


def _after_array(content: mmap.mmap, place: int) -> int:
    (kind,) = _TYPE.unpack_from(content, place)
    (count,) = _COUNT.unpack_from(content, place + _TYPE.size)
    place += _TYPE.size + _COUNT.size
    if kind != _STRING_CODE:
        return place + int(count) * _size(kind)
    for _ in range(count):
        place += _COUNT.size + int(_COUNT.unpack_from(content, place)[0])
    return place


def _text(content: mmap.mmap, place: int) -> tuple[bytes, int]:
    (length,) = _COUNT.unpack_from(content, place)
    begin = place + _COUNT.size
    return content[begin : begin + length], begin + length


def _size(kind: int) -> int:
    if kind not in _SIZES:
        raise ValueError(f"a value of the unknown type {kind}")
    return _SIZES[kind]
