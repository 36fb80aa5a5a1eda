"""Log — structured loggers on top of the standard ones.

A library must not print: only warnings appear until the program configures logging, as `avm serve` does.

The handler of a request, command or turn binds its ids once, with `concerning`; every entry made within carries them. One
context variable holds all ids, so that there is no cost per delta.
"""

import logging
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from structlog.stdlib import BoundLogger
    from structlog.typing import EventDict

SECRET_CHARACTERS_MIN = 8

IDS: Final = ("request_id", "tenant_id", "user_id", "container_id", "session_id", "turn_id")
"""Ids that entries can be filtered by."""

Ids = Mapping[str, str]
Sink = Callable[[str, str, "EventDict"], None]
"""Receives the logger's name, the level and the facts of each entry, on the entry's thread; must neither raise nor wait."""

concealed: set[str] = set()
"""Secrets added at run time, which are redacted from all entries."""

sinks: list[Sink] = []
"""Additional receivers of entries."""

Gate = Callable[["EventDict"], bool]
"""Receives the facts of each entry, on the thread of the entry; a refused entry is dropped."""

gates: list[Gate] = []

_concealed_here: ContextVar[tuple[str, ...]] = ContextVar("agentvm_concealed", default=())
_about: ContextVar[Ids] = ContextVar("agentvm_about", default=MappingProxyType({}))


def conceal(secret: str) -> None:
    """Redacts a secret from now on. A text shorter than any key is ignored: it would be cut out of other words."""
    if len(secret) >= SECRET_CHARACTERS_MIN:
        concealed.add(secret)


def mask_in_logs(secret: str) -> None:
    """Redacts a secret from the entries of this task and of those that it starts from now on."""
    _concealed_here.set((*_concealed_here.get(), secret))


def masked_secrets() -> frozenset[str]:
    """Returns the secrets that are redacted from an entry which is made now."""
    return frozenset((*concealed, *_concealed_here.get()))


def set_level(level: str) -> None:
    """Sets the minimum level of AgentVM's entries."""
    logging.getLogger("agentvm").setLevel(level.upper())


class concerning:  # reads as a function: `with concerning(turn_id=…):`
    """Binds ids to the entries made within, in place of the ids bound outside.

    A task inherits the ids bound where it was started; a turn started by one user's request must not keep them for the next.
    """

    __slots__ = ("_ids", "_token")

    def __init__(self, **ids: str | None) -> None:
        self._token: Token[Ids]
        self._ids: Ids = {name: value for name, value in ids.items() if value is not None}

    def __enter__(self) -> None:
        self._token = _about.set(self._ids)

    def __exit__(self, *_: object) -> None:
        _about.reset(self._token)


def also_concerning(**ids: str | None) -> None:
    """Binds more ids until the surrounding `concerning` ends."""
    _about.set({**_about.get(), **{name: value for name, value in ids.items() if value is not None}})


def concerned() -> Ids:
    """The ids bound here."""
    return _about.get()


def get_logger(name: str) -> "BoundLogger":
    """Events are short names, facts are keywords: `logger.info("agent_stopped", agent_id=…)`."""
    return cast("BoundLogger", _LateLogger(name))


class _LateLogger:
    """Loads structlog with the first entry: a client or a command that logs nothing starts in half the time without it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, method: str) -> Any:
        bound = getattr(_wrapped(self._name), method)
        setattr(self, method, bound)
        return bound


def _wrapped(name: str) -> "BoundLogger":
    import structlog  # noqa: PLC0415  # See _LateLogger.

    steps = structlog.stdlib
    processors = [steps.filter_by_level, _correlate, _admit, _hand_on, steps.render_to_log_kwargs]
    return cast(
        "BoundLogger",
        structlog.wrap_logger(logging.getLogger(name), processors=processors, wrapper_class=steps.BoundLogger),
    )


# Any: structlog's word for a logger.
def _correlate(logger: Any, method: str, entry: "EventDict") -> "EventDict":
    """Adds the bound ids; the entry's own ids take precedence, and None removes one.

    An entry for the operator alone is made with `tenant_id=None`.
    """
    facts = {**_about.get(), **entry}
    for name in IDS:
        if name in entry and entry[name] is None:
            del facts[name]
    return facts


def _admit(logger: Any, method: str, entry: "EventDict") -> "EventDict":
    if not all(gate(entry) for gate in tuple(gates)):
        from structlog import DropEvent  # noqa: PLC0415  # See _LateLogger.

        raise DropEvent
    return entry


def _hand_on(logger: Any, method: str, entry: "EventDict") -> "EventDict":
    for sink in tuple(sinks):
        sink(logger.name, method, dict(entry))
    return entry
