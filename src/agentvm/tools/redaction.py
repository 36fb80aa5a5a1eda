"""Redaction — takes secrets out of what a tool gave: servers like to repeat what they were sent."""

import base64
import json
import urllib.parse
from collections.abc import Mapping

import msgspec

from agentvm.model.secret import Secret

SECRET_CHARACTERS_MIN = 5
"""A shorter secret cannot be told from ordinary text."""


class Redaction:
    """The secrets that one call was given, in the forms in which they can come back."""

    def __init__(self, secrets: Mapping[str, Secret]) -> None:
        forms: dict[bytes, bytes] = {}
        for name, secret in secrets.items():
            for form in _forms(secret.reveal()):
                if len(form) >= SECRET_CHARACTERS_MIN:
                    forms[form] = f"[secret {name}]".encode()
        # The longest first: a form may contain another.
        self._forms = sorted(forms.items(), key=lambda item: -len(item[0]))

    def clean(self, body: bytes) -> bytes:
        """Returns the bytes with the name of each secret in its place."""
        for form, name in self._forms:
            body = body.replace(form, name)
        return body

    def clean_text(self, text: str) -> str:
        return self.clean(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass") if self._forms else text

    def clean_value(self, value: object) -> object:
        """Returns a JSON value without secrets, in its texts, names and numbers. A value without any is the same object."""
        if not self._forms or isinstance(value, bool | None):
            return value
        match value:
            case str():
                return self.clean_text(value)
            case int() | float():
                text = msgspec.json.encode(value).decode()
                clean = self.clean_text(text)
                return value if clean == text else clean
            case Mapping():
                return {self.clean_text(str(name)): self.clean_value(item) for name, item in value.items()}
            case list() | tuple():
                return [self.clean_value(item) for item in value]
            case _:
                return value


def _forms(value: str) -> tuple[bytes, ...]:
    raw = value.encode("utf-8", "surrogatepass")
    encoded = [
        # Inside of a longer text base64 depends on the bytes before it, so on their number modulo 3.
        base64.b64encode(b"\0" * shift + raw)[start:].rstrip(b"=")[: -1 if (shift + len(raw)) % 3 else None]
        for shift, start in ((0, 0), (1, 2), (2, 3))
    ]
    safe = [form.replace(b"+", b"-").replace(b"/", b"_") for form in encoded]
    # Both forms of JSON: with and without letters beyond ASCII.
    escaped = (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
    urls = (urllib.parse.quote(raw, safe=""), urllib.parse.quote_plus(raw))
    texts = [text.encode("utf-8", "surrogatepass") for text in (*escaped, *urls, *(_lower_hex(url) for url in urls))]
    return (raw, *texts, *encoded, *safe)


def _lower_hex(url: str) -> str:
    """Returns the URL form of a value as other programs write it: `%2f` for `%2F`."""
    first, *rest = url.split("%")
    return "%".join([first, *(part[:2].lower() + part[2:] for part in rest)])
