"""Retention — how long what was said is kept, as its tenant wants it."""

from dataclasses import dataclass

DAY = 86_400_000
"""Milliseconds."""

FOREVER = 36_500
"""Days: a hundred years, for who keeps what would go by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Days after which something goes; None for never."""

    session_days: int | None = None
    """Sessions in which nothing was said since. Pinned ones stay."""
    archived_days: int | None = None
    """The same of those that are archived; None for as the others."""
    rewound_days: int | None = 30
    """What was taken back."""
    message_days: int | None = None
    """Turns that ended, of sessions that go on."""

    def cut(self, now: int) -> "RetentionCutoffs":
        archived = self.session_days if self.archived_days is None else self.archived_days
        return RetentionCutoffs(
            sessions=_before(now, self.session_days),
            archived=_before(now, archived),
            rewound=_before(now, self.rewound_days),
            messages=_before(now, self.message_days),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionCutoffs:
    """The moments before which something goes; None for what stays."""

    sessions: int | None
    archived: int | None
    rewound: int | None
    messages: int | None

    @property
    def idle(self) -> bool:
        """Whether sessions go at all."""
        return self.sessions is not None or self.archived is not None


def _before(now: int, days: int | None) -> int | None:
    return None if days is None else now - days * DAY
