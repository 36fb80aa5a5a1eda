"""Log — structured loggers on top of the standard ones.

A library must not print: nothing but warnings appears until the program that uses it configures logging, as `avm serve` does.

Whoever handles a request, a command or a turn says so once, with `concerning`; from then on every entry made there carries its
ids. One variable holds them all, so that binding and reading cost the same whatever is known, and nothing is paid per delta.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Final, cast

import structlog
from structlog.typing import EventDict

SHORTEST_KEY = 8

IDS: Final = ("request_id", "tenant_id", "user_id", "container_id", "session_id", "turn_id")
"""What entries are found by, besides their own facts."""

Ids = Mapping[str, str]
Sink = Callable[[str, str, EventDict], None]
"""Is given the logger's name, the level and the facts of each entry, on whichever thread it is made; must neither raise nor
wait."""

concealed: set[str] = set()
"""What no entry may show, besides what the program has named when it configured its logs: keys that came while it runs."""

sinks: list[Sink] = []
"""Who keeps entries, besides what the program has configured."""

Gate = Callable[[EventDict], bool]
"""Is given the facts of each entry, on whichever thread it is made; one that it refuses is neither kept nor shown."""

gates: list[Gate] = []

_about: ContextVar[Ids] = ContextVar("agentvm_about", default=MappingProxyType({}))


def conceal(secret: str) -> None:
    """From now on no entry shows it. What is shorter than any key is left: it would be cut out of every other word."""
    if len(secret) >= SHORTEST_KEY:
        concealed.add(secret)


def set_level(level: str) -> None:
    """From now on entries of AgentVM from this level on are logged."""
    logging.getLogger("agentvm").setLevel(level.upper())


@contextmanager
def concerning(**ids: str | None) -> Iterator[None]:
    """Entries made within are about this, and about nothing that was said outside.

    A task inherits what is bound where it was started; a turn that one person's request has started must not speak for the
    next person's.
    """
    token = _about.set({name: value for name, value in ids.items() if value is not None})
    try:
        yield
    finally:
        _about.reset(token)


def also_concerning(**ids: str | None) -> None:
    """What has become known meanwhile; ends with the `concerning` around it."""
    _about.set({**_about.get(), **{name: value for name, value in ids.items() if value is not None}})


def concerned() -> Ids:
    """What entries made here are about."""
    return _about.get()


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """Events are short names, facts are keywords: `logger.info("agent_stopped", agent_id=…)`."""
    wrapped = structlog.wrap_logger(
        logging.getLogger(name),
        processors=[structlog.stdlib.filter_by_level, _correlate, _admit, _hand_on, structlog.stdlib.render_to_log_kwargs],
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    return cast(structlog.stdlib.BoundLogger, wrapped)


# Any: structlog's word for a logger.
def _correlate(logger: Any, method: str, entry: EventDict) -> EventDict:
    """What an entry says itself goes before what is known of where it is made; None says that it is about none of them.

    So what only the operator may know is said with `tenant_id=None`, wherever it happens.
    """
    found = {**_about.get(), **entry}
    for name in IDS:
        if name in entry and entry[name] is None:
            del found[name]
    return found


def _admit(logger: Any, method: str, entry: EventDict) -> EventDict:
    if not all(gate(entry) for gate in tuple(gates)):
        raise structlog.DropEvent
    return entry


def _hand_on(logger: Any, method: str, entry: EventDict) -> EventDict:
    for sink in tuple(sinks):
        sink(logger.name, method, dict(entry))
    return entry
