"""Long JSON — JSON of a stranger, which stays text while it is long: as objects it would take 25 times its memory.

A long value is checked to be JSON and held as `msgspec.Raw`, which stands for the value wherever JSON is written.
"""

import msgspec

LONG_BYTES = 64 * 1024
_MALFORMED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def read_json(body: bytes | bytearray) -> object:
    """Returns the value of a JSON text, as text if it is long; `ValueError` for a text that is no JSON, or is too deep."""
    try:
        # Strictly decoded first: a text that is passed over is not looked at.
        body.decode()
        # Formatted without spaces, which checks it as well.
        return msgspec.Raw(msgspec.json.format(bytes(body), indent=-1)) if len(body) > LONG_BYTES else msgspec.json.decode(body)
    except _MALFORMED as error:
        raise ValueError(str(error)) from None


def unfolded(value: object) -> object:
    """Returns a value as objects, however long; `ValueError` for one that is nested too deeply."""
    if not isinstance(value, msgspec.Raw):
        return value
    try:
        return msgspec.json.decode(value)
    except _MALFORMED as error:
        raise ValueError(str(error)) from None


def folded(value: object) -> object:
    """Returns a JSON value as text if it is long; `TypeError`, `ValueError` or `RecursionError` for a value that is no JSON."""
    return read_json(msgspec.json.encode(value))
