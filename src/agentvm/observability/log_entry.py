"""Log entry — one entry of the log as it is kept and shown: bounded, without secrets and without what users said.

What users say is in no fact that AgentVM logs on purpose. It can come along with an error, and that is closed here. An error
with a code repeats what somebody gave, or what a provider answered to it: its words are left out, unless it is the store's, of
which nothing could be known without them. Elsewhere what stands in quotes is left out. An exception may say anything, so of it
only its type and the places it came through are kept.
"""

import re
import sys
import traceback
from collections.abc import Iterator
from pathlib import PurePath
from types import TracebackType
from typing import Final, Literal

import msgspec
from structlog.typing import EventDict

from agentvm.errors import BY_CODE, StoreFailed
from agentvm.log import IDS
from agentvm.model.base import Record
from agentvm.observability.redact import Redactor

Level = Literal["debug", "info", "warning", "error", "critical"]

LEVELS: Final[tuple[Level, ...]] = ("debug", "info", "warning", "error", "critical")

MOST_TEXT = 1_000
MOST_FACTS = 40
MOST_DEPTH = 4
MOST_PLACES = 20

_LEVEL_OF: dict[str, Level] = {level: level for level in LEVELS}
_LEVEL_OF |= {"exception": "error", "warn": "warning", "fatal": "critical"}
_QUOTED = re.compile(r"""(?<!\w)'(?:[^'\\]|\\.)*'|(?<!\w)"(?:[^"\\]|\\.)*\"""")
_APART = ("exc_info", "stack_info", "extra")
_NO_WORDS = ("error", "problem", "message")
"""Facts that hold an error's own text."""


class Raised(Record):
    """An exception, without its text."""

    kind: str
    places: tuple[str, ...] = ()
    """Where it came through, the innermost last: `runtime/agent.py:283 _run_turn`."""


class LogEntry(Record):
    """One entry. `number` grows with each, also over restarts; `facts` are what the event is about."""

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

    @property
    def code(self) -> str | None:
        code = self.facts.get("code")
        return code if isinstance(code, str) else None


def make_entry(number: int, at: int, logger: str, method: str, facts: EventDict, redactor: Redactor) -> LogEntry:
    """The entry of what was logged, fit to be kept. To be called where it was logged: the exception is the current one."""
    raised = _raised(facts.get("exc_info"))
    clean = redactor.clean_all({name: value for name, value in facts.items() if name not in _APART and value is not None})
    kind = BY_CODE.get(str(clean.get("code")))
    if kind is not None and not issubclass(kind, StoreFailed):
        clean = {name: value for name, value in clean.items() if name not in _NO_WORDS}
    ids = {name: str(clean.pop(name))[:MOST_TEXT] for name in IDS if name in clean}
    event = str(clean.pop("event", ""))[:MOST_TEXT]
    return LogEntry(
        number=number,
        at=at,
        level=_LEVEL_OF.get(method, "info"),
        event=event,
        logger=logger,
        **ids,
        facts={_camel(name): _bounded(value) for name, value in list(clean.items())[:MOST_FACTS]},
        raised=raised,
    )


def texts_of(entry: LogEntry) -> Iterator[str]:
    """All that a search for text looks at."""
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
            # Half of a surrogate pair cannot be written.
            text = text.encode(errors="replace").decode()
            return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}…"
        case dict() | list() if depth >= MOST_DEPTH:
            return "…"
        case dict():
            return {_camel(str(name)): _bounded(inner, depth + 1) for name, inner in list(value.items())[:MOST_FACTS]}
        case list():
            return [_bounded(inner, depth + 1) for inner in value[:MOST_FACTS]]
        case int() if abs(value) >= 2**53:
            return str(value)
        case _:
            return value


def _camel(name: str) -> str:
    first, *others = name[:MOST_TEXT].split("_")
    return first + "".join(part.capitalize() for part in others)


def _raised(given: object) -> Raised | None:
    error = sys.exception() if given is True else given[1] if isinstance(given, tuple) else given
    if not isinstance(error, BaseException):
        return None
    return Raised(kind=type(error).__name__, places=tuple(_places(error.__traceback__)))


def _places(trace: TracebackType | None) -> list[str]:
    frames = traceback.extract_tb(trace)[-MOST_PLACES:]
    return [f"{_short(frame.filename)}:{frame.lineno} {frame.name}" for frame in frames]


def _short(path: str) -> str:
    """From the package on: where it is installed is nobody's business."""
    parts = PurePath(path).parts
    for index in range(len(parts) - 1, -1, -1):
        if parts[index] in ("agentvm", "site-packages"):
            return "/".join(parts[index + 1 :])
    return parts[-1] if parts else path
