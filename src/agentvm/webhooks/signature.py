"""Signatures — secrets of webhooks, and the headers that prove who sent a body: Standard Webhooks, version 1. Pure."""

import base64
import hashlib
import hmac
from collections.abc import Sequence

from agentvm.model.secret import Secret

SECRET_BYTES = 32
_PREFIX = "whsec_"


def secret_of(random_bytes: bytes) -> Secret:
    """Returns the text of a secret, as libraries of receivers take it."""
    return Secret(_PREFIX + base64.b64encode(random_bytes).decode())


def signed_headers(event_id: str, at_seconds: int, body: bytes, secrets: Sequence[Secret]) -> tuple[tuple[str, str], ...]:
    """Returns the headers of a body: one signature for each secret, so that a receiver may know the new one or the old."""
    content = f"{event_id}.{at_seconds}.".encode() + body
    signatures = " ".join(f"v1,{_sign(secret, content)}" for secret in secrets)
    return (("webhook-id", event_id), ("webhook-timestamp", str(at_seconds)), ("webhook-signature", signatures))


def _sign(secret: Secret, content: bytes) -> str:
    key = base64.b64decode(secret.reveal().removeprefix(_PREFIX))
    return base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()
