"""Redaction — takes secrets out of what a tool gave: servers like to repeat what they were sent."""

import base64
import json
import urllib.parse
from collections.abc import Mapping

from agentvm.model.secret import Secret

_SHORT_MAX = 4
"""Characters of a secret that is too short to be told from ordinary text."""


class Redaction:
    """The secrets that one call was given, in the forms in which they can come back."""

    def __init__(self, secrets: Mapping[str, Secret]) -> None:
        forms: dict[bytes, bytes] = {}
        for name, secret in secrets.items():
            for form in _forms(secret.reveal()):
                if len(form) > _SHORT_MAX:
                    forms[form] = f"[secret {name}]".encode()
        # The longest first: a form may contain another.
        self._forms = sorted(forms.items(), key=lambda item: -len(item[0]))

    def clean(self, body: bytes) -> bytes:
        """Returns the bytes with the name of each secret in its place."""
        for form, name in self._forms:
            body = body.replace(form, name)
        return body


def _forms(value: str) -> tuple[bytes, ...]:
    raw = value.encode()
    encoded = [
        # Inside of a longer text base64 depends on the bytes before it, so on their number modulo 3.
        base64.b64encode(b"\0" * shift + raw)[start:].rstrip(b"=")[: -1 if (shift + len(raw)) % 3 else None]
        for shift, start in ((0, 0), (1, 2), (2, 3))
    ]
    urls = (urllib.parse.quote(value, safe=""), urllib.parse.quote_plus(value), json.dumps(value)[1:-1])
    safe = [form.replace(b"+", b"-").replace(b"/", b"_") for form in encoded]
    return (raw, *(url.encode() for url in urls), *encoded, *safe)
