"""Logs — what a command writes to stderr while it runs: one line per entry, with its time.

Readable `key=value` in a terminal, JSON everywhere else. No secret and no query string is written, whoever logs it:
the last step before the text is built takes them out. Other people's libraries are heard from warnings upward only.
"""

import logging
import re
import sys
from collections.abc import Sequence
from typing import TextIO

import structlog
from structlog.stdlib import ProcessorFormatter
from structlog.typing import EventDict, Processor, WrappedLogger

from agentvm.errors import ConfigInvalid
from agentvm.log import concealed, set_level
from agentvm.model.secret import Secret

LEVELS = ("debug", "info", "warning", "error")

_SECRET_NAME = re.compile(r"(?i).*(?:api_?key|authorization|password|secret|cookie)|(?:.*_)?token")
_QUERY = re.compile(r"""(\w+://[^\s?'"]*|(?:^|(?<=[\s'"]))/[^\s?'"]*)\?[^\s'"]*""")
_USER_INFO = re.compile(r"(\w+://)[^\s/@]+@")


def configure_logs(level: str, *, secrets: Sequence[Secret | None] = (), stream: TextIO | None = None) -> None:
    """From now on, entries at `level` and above go to `stream` (stderr). Raises ConfigInvalid for an unknown level."""
    check_level(level)
    target = stream or sys.stderr
    handler = logging.StreamHandler(target)
    handler.setFormatter(
        ProcessorFormatter(
            foreign_pre_chain=[
                structlog.stdlib.add_log_level,
                structlog.stdlib.add_logger_name,
                structlog.stdlib.ExtraAdder(),
                structlog.processors.TimeStamper(fmt="iso", utc=True),
            ],
            processors=[
                ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                Redactor(secrets),
                _renderer(target),
            ],
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    set_level(level)


def check_level(level: str) -> None:
    if level not in LEVELS:
        raise ConfigInvalid(f"The log level is {level!r}; it must be one of: {', '.join(LEVELS)}")


def _renderer(stream: TextIO) -> Processor:
    first = ["timestamp", "level", "event"]
    if stream.isatty():
        return structlog.processors.LogfmtRenderer(key_order=first, bool_as_flag=False)
    return structlog.processors.JSONRenderer(default=repr, ensure_ascii=False)


class Redactor:
    """Takes secrets and query strings out of an entry."""

    def __init__(self, secrets: Sequence[Secret | None]) -> None:
        self._secrets = [secret.reveal() for secret in secrets if secret is not None]

    def __call__(self, logger: WrappedLogger, method: str, entry: EventDict) -> EventDict:
        return {name: "***" if _SECRET_NAME.fullmatch(name) else self._clean(value) for name, value in entry.items()}

    def _clean(self, value: object) -> object:
        match value:
            case str():
                # The longest first: one that begins another would leave the rest of it.
                for secret in sorted({*self._secrets, *concealed}, key=len, reverse=True):
                    value = value.replace(secret, "***")
                return _USER_INFO.sub(r"\1***@", _QUERY.sub(r"\1", value))
            case dict():
                return {key: "***" if _SECRET_NAME.fullmatch(str(key)) else self._clean(inner) for key, inner in value.items()}
            case list() | tuple():
                return [self._clean(inner) for inner in value]
            case bool() | int() | float() | None:
                return value
            case _:
                return self._clean(repr(value))
