"""Error groups — the errors in the log by kind: their count, and the first and the last time. Computed on request.

The log survives a restart and holds all that is needed; a separate table could only disagree with it.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from agentvm.model.base import Record
from agentvm.observability.log_entry import LogEntry

GROUPS_MAX: Final = 1_000
"""Groups that are returned; those seen last are kept."""


class ErrorGroup(Record):
    """Errors of one tenant with the same code, event and place."""

    code: str
    """The code of the error; for a bug, the type of the exception."""
    event: str
    where: str
    """The module, or for a bug the innermost place."""
    count: int
    first_at: int
    last_at: int
    tenant_id: str | None = None
    last_number: int
    """The log entry of the last time."""
    last_request_id: str | None = None
    last_session_id: str | None = None
    last_turn_id: str | None = None
    nodes: Sequence[int] | None = None
    """In a cluster, in a list of several nodes: the nodes that it happened on, where it was last first."""


def is_error(entry: LogEntry) -> bool:
    """Whether an entry is an error: one that is logged as such, or a warning with an error code, such as a failed turn."""
    return entry.level in ("error", "critical") or (entry.level == "warning" and entry.code is not None)


def may_be_error(line: bytes) -> bool:
    """Whether the JSON of an entry may be that of an error."""
    return b'"error"' in line or b'"warning"' in line or b'"critical"' in line


def group(entries: Iterable[LogEntry]) -> list[ErrorGroup]:
    """Groups entries that come newest first; the groups are ordered by their last entry."""
    counts: dict[tuple[str | None, str, str, str], int] = {}
    newest: dict[tuple[str | None, str, str, str], LogEntry] = {}
    oldest: dict[tuple[str | None, str, str, str], LogEntry] = {}
    for entry in entries:
        if not is_error(entry):
            continue
        key = (entry.tenant_id, _code(entry), entry.event, _where(entry))
        if key not in counts:
            if len(counts) >= GROUPS_MAX:
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


def merge(groups: Iterable[tuple[int, ErrorGroup]]) -> list[ErrorGroup]:
    """Joins the groups of nodes, each with the number of its node; ordered by their last entry."""
    merged: dict[tuple[str | None, str, str, str], ErrorGroup] = {}
    for node_id, group in sorted(groups, key=lambda pair: -pair[1].last_at):
        key = (group.tenant_id, group.code, group.event, group.where)
        earlier = merged.get(key)
        merged[key] = (
            replace(group, nodes=(node_id,))
            if earlier is None
            else replace(
                earlier,
                count=earlier.count + group.count,
                first_at=min(earlier.first_at, group.first_at),
                nodes=(*(earlier.nodes or ()), node_id),
            )
        )
    return list(merged.values())
