"""Log filter — which entries are asked for, and which of them the asker may see. Pure."""

import re
from dataclasses import dataclass

from agentvm.model.ids import TenantId
from agentvm.model.principal import Principal
from agentvm.observability.log_entry import LEVELS, Level, LogEntry, texts_of

_PLAIN = re.compile(r"[\w.:-]+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFilter:
    """What is asked for: all that is said must hold. `since` counts, `until` does not."""

    level: Level | None = None
    """The least important."""
    since: int | None = None
    until: int | None = None
    request_id: str | None = None
    turn_id: str | None = None
    session_id: str | None = None
    container_id: str | None = None
    event: str | None = None
    text: str | None = None
    """Found anywhere, in whatever case."""

    def matches(self, entry: LogEntry) -> bool:
        return (
            (self.level is None or LEVELS.index(entry.level) >= LEVELS.index(self.level))
            and (self.since is None or entry.at >= self.since)
            and (self.until is None or entry.at < self.until)
            and (self.request_id is None or entry.request_id == self.request_id)
            and (self.turn_id is None or entry.turn_id == self.turn_id)
            and (self.session_id is None or entry.session_id == self.session_id)
            and (self.container_id is None or entry.container_id == self.container_id)
            and (self.event is None or entry.event == self.event)
            and (self.text is None or _found(self.text, entry))
        )

    def may_match(self, line: bytes) -> bool:
        """Whether the JSON of an entry is worth being read: what is found by an id is rare."""
        return all(one in line for one in self._ids)

    @property
    def _ids(self) -> list[bytes]:
        named = (self.turn_id, self.request_id, self.session_id, self.container_id)
        # One that JSON writes as it is.
        return [name.encode() for name in named if name is not None and _PLAIN.fullmatch(name)]


EVERY = LogFilter()


@dataclass(frozen=True, slots=True)
class Sight:
    """Whose entries are seen. Those without a tenant are the operator's, those without a container are whole tenants'."""

    tenant_id: TenantId | None
    """None: of everybody, and of nobody."""
    principal: Principal

    def sees(self, entry: LogEntry) -> bool:
        if self.tenant_id is not None and entry.tenant_id != self.tenant_id:
            return False
        if self.principal.containers is None:
            return True
        return entry.container_id is not None and self.principal.reaches(entry.container_id)


def sight_of(principal: Principal, named: TenantId | None) -> Sight:
    """What a principal sees; `named` is the tenant that it asks about, which it must have been let to."""
    if named is None and principal.may("system:admin"):
        return Sight(None, principal)
    return Sight(principal.tenant_id if named is None else named, principal)


def _found(text: str, entry: LogEntry) -> bool:
    wanted = text.casefold()
    return any(wanted in one.casefold() for one in texts_of(entry))
