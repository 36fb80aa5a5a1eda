"""Retention — the settings of how long sessions and messages are kept, and the moments that follow from them."""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from agentvm.model.setting import Group, setting

DAY_MS = 86_400_000

FOREVER_DAYS = 36_500
"""A retention period of a hundred years, to keep data that would be deleted by default."""

RetentionDays = Annotated[int, Meta(ge=1, le=FOREVER_DAYS)]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Retention(Group):
    """Days after which each kind of data is deleted permanently; None for never."""

    session_days: Annotated[
        RetentionDays | None,
        setting("Days without a message after which a session is deleted; pinned ones are kept.", tenant="any", unset="never"),
    ] = None
    archived_days: Annotated[
        RetentionDays | None, setting("The same for archived sessions.", tenant="any", unset="as for other sessions")
    ] = None
    stateless_days: Annotated[
        RetentionDays,
        setting(
            "The same for archived sessions whose client sends the whole history each time, as chats of OpenAI do; 36500 for "
            "never.",
            tenant="any",
        ),
    ] = 30
    rewound_days: Annotated[
        RetentionDays, setting("Days after which rewound messages are deleted; 36500 for never.", tenant="any")
    ] = 30
    message_days: Annotated[
        RetentionDays | None, setting("Days after which ended turns are deleted from a session.", tenant="any", unset="never")
    ] = None

    def cut(self, now: int) -> "RetentionCutoffs":
        archived = self.session_days if self.archived_days is None else self.archived_days
        return RetentionCutoffs(
            sessions=_before(now, self.session_days),
            archived=_before(now, archived),
            stateless=now - self.stateless_days * DAY_MS,
            rewound=_before(now, self.rewound_days),
            messages=_before(now, self.message_days),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionCutoffs:
    """The times before which each kind of data is deleted; None for never."""

    sessions: int | None
    archived: int | None
    stateless: int = 0
    """0: no session is so old."""
    rewound: int | None
    messages: int | None

    @property
    def idle(self) -> bool:
        """Whether sessions are deleted at all."""
        return self.sessions is not None or self.archived is not None


def _before(now: int, days: int | None) -> int | None:
    return None if days is None else now - days * DAY_MS
