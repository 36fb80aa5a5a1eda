"""Keys — the format of API keys, and how one is verified without being stored.

    avm_<id, 12>_<secret, 32>_<checksum, 6>        letters and digits; the checksum is CRC-32 over the part before it

The id finds the key's row. The checksum tells a typo from a key without asking the database, and lets scanners for leaked keys
be sure. Only a keyed digest of the key is stored: a key is random, so a fast hash is enough, and without the server's pepper a
stolen database verifies no key.
"""

import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from zlib import crc32

from agentvm.model.ids import KeyId
from agentvm.model.secret import Secret

RandomBits = Callable[[int], int]
"""Returns that many unpredictable bits, as `secrets.randbits` does."""

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
KEY_CHARACTERS = 56
DIGEST_BYTES = 32

_ID, _SECRET, _CHECKSUM = 12, 32, 6
_SHAPE = re.compile(r"avm_([0-9A-Za-z]{12})_[0-9A-Za-z]{32}_[0-9A-Za-z]{6}")
# More random bits than the letters hold, so that the remainder of the division favours no letter by any measure.
_SPARE_BITS = 64


@dataclass(frozen=True, slots=True)
class ParsedKey:
    """A text in the format of a key. Whether the key exists is another question."""

    key_id: KeyId
    secret: Secret
    """The whole key, so that its digest belongs to its id as well."""


def random_text(random_bits: RandomBits, length: int) -> str:
    """So many letters and digits, each as likely as any other."""
    return _base62(random_bits(6 * length + _SPARE_BITS), length)


def make_key(random_bits: RandomBits) -> tuple[KeyId, Secret]:
    """A new key and its id."""
    key_id = random_text(random_bits, _ID)
    body = f"avm_{key_id}_{random_text(random_bits, _SECRET)}"
    return KeyId(key_id), Secret(f"{body}_{_checksum(body)}")


def parse_key(text: str) -> ParsedKey | None:
    """Returns the parts of a key; None for a text that `make_key` cannot have made."""
    if len(text) != KEY_CHARACTERS or (shape := _SHAPE.fullmatch(text)) is None:
        return None
    body, _, checksum = text.rpartition("_")
    if not hmac.compare_digest(checksum, _checksum(body)):
        return None
    return ParsedKey(KeyId(shape.group(1)), Secret(text))


def digest(pepper: bytes, secret: Secret) -> bytes:
    """Returns the stored digest of a key: HMAC-SHA256 under the server's pepper."""
    return hmac.digest(pepper, secret.reveal().encode(), "sha256")


def matches(pepper: bytes, secret: Secret, stored: bytes) -> bool:
    """Whether the digest is that of the key; takes the same time wherever they differ."""
    return hmac.compare_digest(digest(pepper, secret), stored)


def _checksum(body: str) -> str:
    return _base62(crc32(body.encode()), _CHECKSUM)


def _base62(number: int, length: int) -> str:
    """The last so many digits."""
    digits = []
    for _ in range(length):
        number, digit = divmod(number, len(ALPHABET))
        digits.append(ALPHABET[digit])
    return "".join(reversed(digits))
