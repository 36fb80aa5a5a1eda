"""Feishu hook — a request in which Feishu tells an event: signed and encrypted with the Encrypt Key of the app. Pure."""

import base64
import hmac
from hashlib import sha256
from typing import Any

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from agentvm.channels.calls import read_object, text_of
from agentvm.model.channel import PlatformHook

WINDOW_SECONDS = 300
"""Maximum age of a signed request; an older one could be a replay."""
_BLOCK_BYTES = 16
_DIGITS_MAX = 12


def read_hook(hook: PlatformHook, key: str, now_seconds: int) -> dict[str, Any] | None:
    """Returns the event of a request that knows the key; None for any other.

    The verification request for the address is not signed; being encrypted with the key authenticates it.
    """
    event = _opened(text_of(read_object(hook.body) or {}, "encrypt"), key)
    if event is None or challenge_of(event):
        return event
    return event if _is_signed(hook, key, now_seconds) else None


def challenge_of(event: dict[str, Any]) -> str:
    """Returns the text that the question about the address wants back; empty for an event."""
    return text_of(event, "challenge") if text_of(event, "type") == "url_verification" else ""


def _is_signed(hook: PlatformHook, key: str, now_seconds: int) -> bool:
    at, nonce, signature = (
        hook.headers.get(f"x-lark-{name}", "") for name in ("request-timestamp", "request-nonce", "signature")
    )
    if not (at.isascii() and at.isdigit() and len(at) <= _DIGITS_MAX) or abs(now_seconds - int(at)) > WINDOW_SECONDS:
        return False
    expected = sha256(f"{at}{nonce}{key}".encode("utf-8", "surrogatepass") + hook.body).hexdigest()
    return hmac.compare_digest(expected.encode(), signature.encode("utf-8", "surrogatepass"))


def _opened(text: str, key: str) -> dict[str, Any] | None:
    """Opens AES-256-CBC whose first block is the nonce; None for a text that was not encrypted with the key."""
    try:
        sealed = base64.b64decode(text, validate=True)
    except ValueError:
        return None
    if len(sealed) < 2 * _BLOCK_BYTES or len(sealed) % _BLOCK_BYTES:
        return None
    opening = Cipher(algorithms.AES(sha256(key.encode()).digest()), modes.CBC(sealed[:_BLOCK_BYTES])).decryptor()
    padded = opening.update(sealed[_BLOCK_BYTES:]) + opening.finalize()
    if not 0 < padded[-1] <= _BLOCK_BYTES:
        return None
    return read_object(padded[: -padded[-1]])
