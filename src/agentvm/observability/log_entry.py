"""Log entry — one entry of the log as it is stored and shown: bounded, without secrets and without content of messages.

AgentVM logs no content on purpose, but errors may carry some. An error with a code may repeat input, or a provider's response
to it: its text is left out, unless it is an error of the store, which says nothing without its text. Elsewhere quoted text is
left out. The text of an exception may be anything, so only its type and its stack are kept.
"""

import re
import sys
import traceback
from collections.abc import Iterator
from pathlib import PurePath
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from agentvm.errors import BY_CODE, StoreFailed
from agentvm.log import IDS
from agentvm.model.base import Record
from agentvm.observability.redact import Redactor

if TYPE_CHECKING:
    from structlog.typing import EventDict

Level = Literal["debug", "info", "warning", "error", "critical"]

LEVELS: Final[tuple[Level, ...]] = ("debug", "info", "warning", "error", "critical")

TEXT_CHARACTERS_MAX = 1_000
FACTS_MAX = 40
DEPTH_MAX = 4
PLACES_MAX = 20

_LEVEL_OF: dict[str, Level] = {level: level for level in LEVELS}
_LEVEL_OF |= {"exception": "error", "warn": "warning", "fatal": "critical"}
_QUOTED = re.compile(r"""(?<!\w)'(?:[^'\\]|\\.)*'|(?<!\w)"(?:[^"\\]|\\.)*\"""")
_NOT_FACTS = ("exc_info", "stack_info", "extra")
_ERROR_TEXTS = ("error", "problem", "message")
"""Facts that hold the text of an error."""


class Raised(Record):
    """An exception, without its text."""

    kind: str
    places: tuple[str, ...] = ()
    """The stack, innermost last: `runtime/agent.py:283 _run_turn`."""


class LogEntry(Record):
    """One entry. `number` grows with each entry, also across restarts; `facts` are the details of the event."""

    number: int
    at: int
    level: Level
    event: str
    logger: str
    request_id: str | None = None
    tenant_id: str | None = None
    user_id: str | None = None
    container_id: str | None = None
    session_id: str | None = None
    turn_id: str | None = None
    facts: dict[str, object] = msgspec.field(default_factory=dict)
    raised: Raised | None = None
    node_id: int | None = None
    """In a cluster, in a list of several nodes: the node whose entry it is. Each node numbers its own."""

    @property
    def code(self) -> str | None:
        code = self.facts.get("code")
        return code if isinstance(code, str) else None


def make_entry(number: int, at: int, logger: str, method: str, facts: "EventDict", redactor: Redactor) -> LogEntry:
    """Makes an entry that may be stored. To be called where it is logged: the exception is the current one."""
    raised = _raised(facts.get("exc_info"))
    clean = redactor.clean_all({name: value for name, value in facts.items() if name not in _NOT_FACTS and value is not None})
    kind = BY_CODE.get(str(clean.get("code")))
    if kind is not None and not issubclass(kind, StoreFailed):
        clean = {name: value for name, value in clean.items() if name not in _ERROR_TEXTS}
    ids = {name: str(clean.pop(name))[:TEXT_CHARACTERS_MAX] for name in IDS if name in clean}
    event = str(clean.pop("event", ""))[:TEXT_CHARACTERS_MAX]
    return LogEntry(
        number=number,
        at=at,
        level=_LEVEL_OF.get(method, "info"),
        event=event,
        logger=logger,
        **ids,
        facts={_camel(name): _bounded(value) for name, value in list(clean.items())[:FACTS_MAX]},
        raised=raised,
        node_id=None,
    )


def texts_of(entry: LogEntry) -> Iterator[str]:
    """Yields all texts of an entry, for searches."""
    yield entry.event
    yield entry.logger
    yield from (value for name in IDS if (value := getattr(entry, name)) is not None)
    yield from _texts(entry.facts)
    if entry.raised is not None:
        yield entry.raised.kind
        yield from entry.raised.places


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield str(name)
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    else:
        yield str(value)


def _bounded(value: object, depth: int = 0) -> object:
    match value:
        case str():
            text = _QUOTED.sub("'…'", value)
            # Half of a surrogate pair cannot be encoded.
            text = text.encode(errors="replace").decode()
            return text if len(text) <= TEXT_CHARACTERS_MAX else f"{text[:TEXT_CHARACTERS_MAX]}…"
        case dict() | list() if depth >= DEPTH_MAX:
            return "…"
        case dict():
            return {_camel(str(name)): _bounded(inner, depth + 1) for name, inner in list(value.items())[:FACTS_MAX]}
        case list():
            return [_bounded(inner, depth + 1) for inner in value[:FACTS_MAX]]
        case int() if abs(value) >= 2**53:
            return str(value)
        case _:
            return value


def _camel(name: str) -> str:
    first, *others = name[:TEXT_CHARACTERS_MAX].split("_")
    return first + "".join(part.capitalize() for part in others)


def _raised(info: object) -> Raised | None:
    error = sys.exception() if info is True else info[1] if isinstance(info, tuple) else info
    if not isinstance(error, BaseException):
        return None
    return Raised(kind=type(error).__name__, places=tuple(_places(error.__traceback__)))


def _places(trace: TracebackType | None) -> list[str]:
    frames = traceback.extract_tb(trace)[-PLACES_MAX:]
    return [f"{_short(frame.filename)}:{frame.lineno} {frame.name}" for frame in frames]


def _short(path: str) -> str:
    """Returns a path from the package on, without the place of the installation."""
    parts = PurePath(path).parts
    for index in range(len(parts) - 1, -1, -1):
        if parts[index] in ("agentvm", "site-packages"):
            return "/".join(parts[index + 1 :])
    return parts[-1] if parts else path
