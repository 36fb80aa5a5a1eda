"""Log — structured loggers on top of the standard ones.

A library must not print: nothing but warnings appears until the program that uses it configures logging, as `avm serve` does.
"""

import logging
from typing import cast

import structlog

SHORTEST_KEY = 8

concealed: set[str] = set()
"""What no entry may show, besides what the program has named when it configured its logs: keys that came while it runs."""


def conceal(secret: str) -> None:
    """From now on no entry shows it. What is shorter than any key is left: it would be cut out of every other word."""
    if len(secret) >= SHORTEST_KEY:
        concealed.add(secret)


def set_level(level: str) -> None:
    """From now on entries of AgentVM from this level on are logged."""
    logging.getLogger("agentvm").setLevel(level.upper())


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """Events are short names, facts are keywords: `logger.info("agent_stopped", agent_id=…)`."""
    wrapped = structlog.wrap_logger(
        logging.getLogger(name),
        processors=[structlog.stdlib.filter_by_level, structlog.stdlib.render_to_log_kwargs],
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    return cast(structlog.stdlib.BoundLogger, wrapped)
