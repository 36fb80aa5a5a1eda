"""Redaction — removes secrets from the result of a tool: servers often repeat their input."""

import base64
import json
import urllib.parse
from collections.abc import Mapping

import msgspec

from agentvm.model.long_json import folded, unfolded
from agentvm.model.secret import Secret

SECRET_CHARACTERS_MIN = 5
"""A shorter secret cannot be told from ordinary text."""


class Redaction:
    """The secrets of one call, in the encodings in which they can be returned."""

    def __init__(self, secrets: Mapping[str, Secret]) -> None:
        forms: dict[bytes, bytes] = {}
        for name, secret in secrets.items():
            for form in _forms(secret.reveal()):
                if len(form) >= SECRET_CHARACTERS_MIN:
                    forms[form] = f"[secret {name}]".encode()
        # The longest first: a form may contain another.
        self._forms = sorted(forms.items(), key=lambda item: -len(item[0]))
        # As they stand in the JSON of a text: some have characters that are escaped there.
        self._probes = tuple({probe for form in forms for probe in (form, _in_json(form))})

    def clean(self, body: bytes) -> bytes:
        """Returns the bytes with the name of each secret in its place."""
        for form, name in self._forms:
            body = body.replace(form, name)
        return body

    def clean_text(self, text: str) -> str:
        return self.clean(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass") if self._forms else text

    def clean_value(self, value: object) -> object:
        """Returns a JSON value without secrets, in its texts, names and numbers. A value without any is the same object."""
        if not self._may_be_in(value):
            return value
        return folded(self._cleaned(unfolded(value))) if isinstance(value, msgspec.Raw) else self._cleaned(value)

    def _may_be_in(self, value: object) -> bool:
        """Whether a value can hold a secret: looked for in its JSON as a whole, since most values hold none."""
        if not self._forms:
            return False
        try:
            body = msgspec.json.encode(value)
        except (TypeError, ValueError, RecursionError):
            return True
        return any(form in body for form in self._probes)

    def _cleaned(self, value: object) -> object:
        if isinstance(value, bool | None):
            return value
        match value:
            case str():
                return self.clean_text(value)
            case int() | float():
                text = msgspec.json.encode(value).decode()
                clean = self.clean_text(text)
                return value if clean == text else clean
            case Mapping():
                return {self.clean_text(str(name)): self._cleaned(item) for name, item in value.items()}
            case list() | tuple():
                return [self._cleaned(item) for item in value]
            case _:
                return value


def _in_json(form: bytes) -> bytes:
    """Returns a form as it stands within a text of JSON; itself if that is no text."""
    try:
        return msgspec.json.encode(form.decode())[1:-1]
    except UnicodeDecodeError:
        return form


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
