"""Times — how a request names a moment."""

from datetime import UTC, datetime
from typing import Protocol

from agentvm.errors import InvalidInput, shorten

Moment = int | str
"""`2026-11-15`, `2026-11-15T10:00:00Z`, or milliseconds; without a zone it is UTC."""

_DIGITS_MAX = 15


def to_ms(moment: Moment | None, field: str) -> int | None:
    """Returns milliseconds since 1970. Raises `InvalidInput` for text that is not a time."""
    if moment is None:
        return None
    if isinstance(moment, int):
        if abs(moment) >= 10**_DIGITS_MAX:
            raise InvalidInput(f"{field} is too far away")
        return moment
    if moment.isascii() and moment.isdigit():
        if len(moment) > _DIGITS_MAX:
            raise InvalidInput(f"{field} is too far away")
        return int(moment)
    try:
        at = datetime.fromisoformat(moment)
        return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise InvalidInput(f"{field} is {shorten(moment)!r}; it must be like 2026-11-15, 2026-11-15T10:00:00Z or ms") from None


class _Bounded(Protocol):
    @property
    def since(self) -> Moment | None: ...

    @property
    def until(self) -> Moment | None: ...


def span_of(request: _Bounded) -> dict[str, int | None]:
    """Returns `since` and `until` of a request in milliseconds."""
    return {"since": to_ms(request.since, "since"), "until": to_ms(request.until, "until")}
