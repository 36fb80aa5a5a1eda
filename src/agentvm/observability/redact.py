"""Redact — removes secrets and query strings from log entries."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentvm.log import masked_secrets
from agentvm.model.secret import Secret

if TYPE_CHECKING:
    from structlog.typing import EventDict, WrappedLogger

HIDDEN = "***"

TEXT_CHARACTERS_MAX = 20_000
"""Characters of one text that are kept: a client may send a hundred million, and each is scanned a few times."""
_MARGIN_CHARACTERS = 1_000
"""Characters that are scanned beyond those that are kept, so that no half of a secret is left."""

_SECRET_NAME = re.compile(r"(?i).*(?:api_?key|authorization|password|secret|cookie)|(?:.*_)?token")
# Each matches with or without the part that it removes, and schemes are short: no text takes more than a few scans.
_QUERY = re.compile(r"""(\w{1,20}://[^\s?'"]*|(?:^|(?<=[\s'"]))/[^\s?'"]*)(?:\?[^\s'"]*)?""")
_USER_INFO = re.compile(r"(\w{1,20}://)[^\s/@]+@")
_OWN_KEY = re.compile(r"avm_[0-9A-Za-z]{12}_[0-9A-Za-z_]{20,}|avmws_[0-9A-Za-z]{16,}|(?i:\bbearer )[^\s'\"]+")
"""Credentials of this server: keys, tickets, and the text after `Bearer`."""


class Redactor:
    """Removes secrets and query strings from an entry."""

    def __init__(self, secrets: Sequence[Secret | None] = ()) -> None:
        # An empty secret would match between any two characters.
        self._secrets = [secret.reveal() for secret in secrets if secret is not None and secret.reveal()]

    def __call__(self, logger: "WrappedLogger", method: str, entry: "EventDict") -> "EventDict":
        return self.clean_all(entry)

    def clean_all(self, entry: "EventDict") -> "EventDict":
        """Returns an entry without secrets."""
        # The longest first: a secret that is the beginning of another would leave the rest of it.
        secrets = sorted({*self._secrets, *masked_secrets()}, key=len, reverse=True)
        return {name: HIDDEN if _SECRET_NAME.fullmatch(name) else _clean(value, secrets) for name, value in entry.items()}


def _clean(value: object, secrets: Sequence[str]) -> object:
    match value:
        case str():
            cut = len(value) > TEXT_CHARACTERS_MAX
            if cut:
                value = value[: TEXT_CHARACTERS_MAX + _MARGIN_CHARACTERS]
            for secret in secrets:
                value = value.replace(secret, HIDDEN)
            clean = _OWN_KEY.sub(HIDDEN, _USER_INFO.sub(r"\1***@", _QUERY.sub(r"\1", value)))
            return f"{clean[:-_MARGIN_CHARACTERS]}…" if cut else clean
        case dict():
            return {key: HIDDEN if _SECRET_NAME.fullmatch(str(key)) else _clean(inner, secrets) for key, inner in value.items()}
        case list() | tuple():
            return [_clean(inner, secrets) for inner in value]
        case bool() | int() | float() | None:
            return value
        case _:
            return _clean(repr(value), secrets)
