"""Signature — secrets, and the headers that prove who sent a body, as Standard Webhooks 1 has it: of webhooks, and of triggers.

Pure."""

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence

from agentvm.model.secret import Secret

SECRET_BYTES = 32
ID_HEADER, TIME_HEADER, SIGNATURE_HEADER = "webhook-id", "webhook-timestamp", "webhook-signature"
ID_MAX = 200
TIME_CHARACTERS_MAX = 12
SIGNATURES_MAX = 8
_PREFIX = "whsec_"


def secret_of(random_bytes: bytes) -> Secret:
    """Returns the text of a secret, as libraries of receivers take it."""
    return Secret(_PREFIX + base64.b64encode(random_bytes).decode())


def signed_headers(event_id: str, at_seconds: int, body: bytes, secrets: Sequence[Secret]) -> tuple[tuple[str, str], ...]:
    """Returns the headers of a body: one signature for each secret, so that a receiver may know the new one or the old."""
    content = f"{event_id}.{at_seconds}.".encode() + body
    signatures = " ".join(f"v1,{_sign(secret, content)}" for secret in secrets)
    return ((ID_HEADER, event_id), (TIME_HEADER, str(at_seconds)), (SIGNATURE_HEADER, signatures))


def is_signed(
    headers: Mapping[str, str], body: bytes, secrets: Sequence[Secret], *, now_seconds: int, window_seconds: int
) -> str | None:
    """Returns the id of a body whose headers prove that its sender knows a secret; None without a proof.

    The time that was signed must be within the window, or an old request could be repeated for ever.
    """
    event_id, at, signatures = (headers.get(name, "") for name in (ID_HEADER, TIME_HEADER, SIGNATURE_HEADER))
    if not (
        0 < len(event_id) <= ID_MAX
        and event_id.isprintable()
        and at.isascii()
        and at.isdigit()
        and len(at) <= TIME_CHARACTERS_MAX
    ):
        return None
    if abs(now_seconds - int(at)) > window_seconds:
        return None
    content = f"{event_id}.{at}.".encode() + body
    expected = [f"v1,{_sign(secret, content)}".encode() for secret in secrets]
    # Every pair is compared, so that the time tells nothing.
    shown = [signature.encode() for signature in signatures.split(" ")[:SIGNATURES_MAX]]
    fits = [hmac.compare_digest(signature, other) for signature in shown for other in expected]
    return event_id if any(fits) else None


def _sign(secret: Secret, content: bytes) -> str:
    key = base64.b64decode(secret.reveal().removeprefix(_PREFIX))
    return base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()
