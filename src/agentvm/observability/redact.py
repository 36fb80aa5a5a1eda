"""Redact — takes secrets and query strings out of an entry of the log, whoever made it."""

import re
from collections.abc import Sequence

from structlog.typing import EventDict, WrappedLogger

from agentvm.log import concealed
from agentvm.model.secret import Secret

HIDDEN = "***"

MOST_TEXT = 20_000
"""Characters of one text. What a peer sends may be a hundred million of them, and each is looked at a few times."""
_MARGIN = 1_000
"""More is looked at than is kept, so that the cut leaves no half of a secret."""

_SECRET_NAME = re.compile(r"(?i).*(?:api_?key|authorization|password|secret|cookie)|(?:.*_)?token")
# Each matches with or without what it takes out, and schemes are short: no text takes more than a few looks at each letter.
_QUERY = re.compile(r"""(\w{1,20}://[^\s?'"]*|(?:^|(?<=[\s'"]))/[^\s?'"]*)(?:\?[^\s'"]*)?""")
_USER_INFO = re.compile(r"(\w{1,20}://)[^\s/@]+@")
_OWN_KEY = re.compile(r"avm_[0-9A-Za-z]{12}_[0-9A-Za-z_]{20,}|avmws_[0-9A-Za-z]{16,}|(?i:\bbearer )[^\s'\"]+")
"""Credentials of this server: keys, tickets, and whatever stands behind `Bearer`."""


class Redactor:
    """Takes secrets and query strings out of an entry."""

    def __init__(self, secrets: Sequence[Secret | None] = ()) -> None:
        # An empty one stands between any two letters.
        self._secrets = [secret.reveal() for secret in secrets if secret is not None and secret.reveal()]

    def __call__(self, logger: WrappedLogger, method: str, entry: EventDict) -> EventDict:
        return self.clean_all(entry)

    def clean_all(self, entry: EventDict) -> EventDict:
        # The longest first: one that begins another would leave the rest of it.
        secrets = sorted({*self._secrets, *concealed}, key=len, reverse=True)
        return {name: HIDDEN if _SECRET_NAME.fullmatch(name) else _clean(value, secrets) for name, value in entry.items()}


def _clean(value: object, secrets: Sequence[str]) -> object:
    match value:
        case str():
            cut = len(value) > MOST_TEXT
            if cut:
                value = value[: MOST_TEXT + _MARGIN]
            for secret in secrets:
                value = value.replace(secret, HIDDEN)
            clean = _OWN_KEY.sub(HIDDEN, _USER_INFO.sub(r"\1***@", _QUERY.sub(r"\1", value)))
            return f"{clean[:-_MARGIN]}…" if cut else clean
        case dict():
            return {key: HIDDEN if _SECRET_NAME.fullmatch(str(key)) else _clean(inner, secrets) for key, inner in value.items()}
        case list() | tuple():
            return [_clean(inner, secrets) for inner in value]
        case bool() | int() | float() | None:
            return value
        case _:
            return _clean(repr(value), secrets)
