"""Log filter — selects log entries by criteria and by the permissions of a principal. Pure."""

import re
from dataclasses import dataclass

from agentvm.model.ids import TenantId
from agentvm.model.principal import Principal
from agentvm.observability.log_entry import LEVELS, Level, LogEntry, texts_of

_PLAIN = re.compile(r"[\w.:-]+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFilter:
    """Criteria that must all hold. `since` is inclusive, `until` exclusive."""

    level: Level | None = None
    """The minimum level."""
    since: int | None = None
    until: int | None = None
    request_id: str | None = None
    turn_id: str | None = None
    session_id: str | None = None
    container_id: str | None = None
    event: str | None = None
    text: str | None = None
    """A text anywhere in the entry, in any case."""

    def matches(self, entry: LogEntry) -> bool:
        """Whether an entry meets all criteria."""
        return (
            (self.level is None or LEVELS.index(entry.level) >= LEVELS.index(self.level))
            and (self.since is None or entry.at >= self.since)
            and (self.until is None or entry.at < self.until)
            and (self.request_id is None or entry.request_id == self.request_id)
            and (self.turn_id is None or entry.turn_id == self.turn_id)
            and (self.session_id is None or entry.session_id == self.session_id)
            and (self.container_id is None or entry.container_id == self.container_id)
            and (self.event is None or entry.event == self.event)
            and (self.text is None or _contains(entry, self.text))
        )

    def may_match(self, line: bytes) -> bool:
        """Whether the JSON of an entry may match: few entries hold a given id."""
        return all(name in line for name in self._ids)

    @property
    def _ids(self) -> list[bytes]:
        named = (self.turn_id, self.request_id, self.session_id, self.container_id)
        # Only names that JSON does not escape.
        return [name.encode() for name in named if name is not None and _PLAIN.fullmatch(name)]


EVERY = LogFilter()


@dataclass(frozen=True, slots=True)
class LogScope:
    """The entries that a principal may see. Those without a tenant are the operator's."""

    tenant_id: TenantId | None
    """None for the entries of all tenants and of none."""
    principal: Principal

    def sees(self, entry: LogEntry) -> bool:
        """Whether the principal may see an entry."""
        if self.tenant_id is not None and entry.tenant_id != self.tenant_id:
            return False
        if self.principal.containers is None:
            return True
        return entry.container_id is not None and self.principal.reaches(entry.container_id)


def log_scope(principal: Principal, named: TenantId | None) -> LogScope:
    """Returns the filter for a principal; `named` is the requested tenant, to which it must have access."""
    if named is None and principal.may("system:admin"):
        return LogScope(None, principal)
    return LogScope(principal.tenant_id if named is None else named, principal)


def _contains(entry: LogEntry, text: str) -> bool:
    folded = text.casefold()
    return any(folded in other.casefold() for other in texts_of(entry))
