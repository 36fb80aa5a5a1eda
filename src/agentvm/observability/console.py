"""Console — the log of a command on stderr: one line per entry, with its time.

Lines are `key=value` in a terminal, JSON elsewhere. Secrets and query strings are removed in the last step before the text is
built, whichever library logs them. Control characters are escaped, because names come from users too. Other libraries log
warnings and errors only.
"""

import json
import logging
import re
import sys
from collections.abc import Sequence
from typing import TextIO

import structlog
from structlog.stdlib import ProcessorFormatter
from structlog.typing import EventDict, Processor, WrappedLogger

from agentvm.errors import ConfigInvalid
from agentvm.log import set_level
from agentvm.model.secret import Secret
from agentvm.observability.redact import Redactor

LEVELS = ("debug", "info", "warning", "error")

_UNUSUAL = re.compile(r"[^ -~]")


def configure_logs(level: str, *, secrets: Sequence[Secret | None] = (), stream: TextIO | None = None) -> None:
    """Sends entries at `level` and above to `stream` (stderr). Raises ConfigInvalid for an unknown level."""
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
                _disarm,
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


def _disarm(logger: WrappedLogger, method: str, line: EventDict | str) -> str:
    """Escapes characters that move a cursor, turn the direction of the text, or cannot be encoded, as JSON does."""
    return _UNUSUAL.sub(lambda match: match[0] if match[0].isprintable() else json.dumps(match[0])[1:-1], str(line))
