"""Error groups — what goes wrong, by kind: how often, since when, and the last time it did. Made of the log whenever asked.

The log holds what is needed and is kept over a restart; a table of its own could only disagree with it.
"""

from collections.abc import Iterable
from typing import Final

from agentvm.model.base import Record
from agentvm.observability.log_entry import LogEntry

MOST: Final = 1_000
"""Groups; those seen last are kept."""


class ErrorGroup(Record):
    """Errors of one tenant that have code, event and place in common."""

    code: str
    """The error's code; of a bug, the type of the exception."""
    event: str
    where: str
    """The module, or for a bug the innermost place."""
    count: int
    first_at: int
    last_at: int
    tenant_id: str | None = None
    last_number: int
    """The entry of the log that tells of the last time."""
    last_request_id: str | None = None
    last_session_id: str | None = None
    last_turn_id: str | None = None


def is_error(entry: LogEntry) -> bool:
    """What is logged as an error; and what failed with a code, such as a turn: no error of the server, but one."""
    return entry.level in ("error", "critical") or (entry.level == "warning" and entry.code is not None)


def may_be_error(line: bytes) -> bool:
    """Whether the JSON of an entry is worth being read."""
    return b'"error"' in line or b'"warning"' in line or b'"critical"' in line


def group(entries: Iterable[LogEntry]) -> list[ErrorGroup]:
    """The groups of entries that come newest first, in the order they were last seen."""
    counts: dict[tuple[str | None, str, str, str], int] = {}
    newest: dict[tuple[str | None, str, str, str], LogEntry] = {}
    oldest: dict[tuple[str | None, str, str, str], LogEntry] = {}
    for entry in entries:
        if not is_error(entry):
            continue
        key = (entry.tenant_id, _code(entry), entry.event, _where(entry))
        if key not in counts:
            if len(counts) >= MOST:
                continue
            newest[key] = entry
        counts[key] = counts.get(key, 0) + 1
        oldest[key] = entry
    return [
        ErrorGroup(
            tenant_id=tenant_id,
            code=code,
            event=event,
            where=where,
            count=counts[key],
            first_at=oldest[key].at,
            last_at=last.at,
            last_number=last.number,
            last_request_id=last.request_id,
            last_session_id=last.session_id,
            last_turn_id=last.turn_id,
        )
        for key, last in newest.items()
        for tenant_id, code, event, where in [key]
    ]


def _code(entry: LogEntry) -> str:
    return entry.code or (entry.raised.kind if entry.raised is not None else entry.level)


def _where(entry: LogEntry) -> str:
    return entry.raised.places[-1] if entry.raised is not None and entry.raised.places else entry.logger
