"""Histories — a cache of the prompts' histories of recently active sessions, between two turns.

Theory of operation. A history is read from the store once; messages that are committed afterwards are added when they are told,
in the order of their commits. Other changes of a history (a rewind, a summary, a part that a provider refused, retention, an
import) drop it from the cache, and the next turn reads it again. A history that changed while it was being read is not kept.
The cached history is therefore always equal to the stored one, and losing it costs one read.

Of a long session the newest messages that fit the model's window are cached, with their rendered exchanges: the cost of a step
depends on the window, not on the length of the session.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

import anyio

from agentvm.events.base import Event, EventData
from agentvm.events.lifecycle import SessionCompacted, SessionDeleted, SessionRestored, SessionRewound
from agentvm.events.message import (
    AssistantMessageEvent,
    ErrorMessageEvent,
    MessageEvent,
    SilentMessageEvent,
    ToolCallMessageEvent,
    ToolResultMessageEvent,
    UserMessageEvent,
)
from agentvm.events.turn import TurnResponse
from agentvm.model.ids import MessageId, SessionId, TenantId
from agentvm.model.message import Message, is_foreign, parts_of, rough_size
from agentvm.runtime.context import Exchanges
from agentvm.storage.base import Recalled

MAX_BYTES = 64 * 1024 * 1024
"""Kept of all histories together, about."""

HISTORY_MAX_BYTES = 4 * 1024 * 1024
"""A history that takes more is read for each turn."""

GROWTH_BYTES = 64 * 1024
"""A history of which only the newest part is kept may grow by so much and by half, then it is read again."""

UNBOUNDED_TOKENS = 2**62
"""The window that a history fills of which nothing was left out."""

MESSAGE_BYTES = 1_024
"""Approximate memory of a message besides its text."""

IDLE_SECONDS = 60.0
"""A history that no turn has needed for this long is forgotten."""

Key = tuple[TenantId, SessionId]


class Keep(Protocol):
    """Keeps the messages that were read; `window` is the number of tokens that a truncated history fills."""

    def __call__(self, recalled: Recalled, window: int = 0, /) -> None: ...


@dataclass(slots=True, eq=False)
class _History:
    recalled: Recalled
    summary: bool
    """Whether it was read with the summary in place of the messages that it covers."""
    messages: dict[str, Message]
    bytes: int
    max_bytes: int
    used_at: float
    window: int
    """Tokens that it fills, as far as the session has them."""
    exchanges: Exchanges
    plain: bool
    """Whether nothing in it is a file or untrusted text."""


class Histories:
    """An effector: adds new messages."""

    kinds = (
        UserMessageEvent,
        AssistantMessageEvent,
        ToolCallMessageEvent,
        ToolResultMessageEvent,
        ErrorMessageEvent,
        SilentMessageEvent,
        TurnResponse,
        SessionRewound,
        SessionCompacted,
        SessionDeleted,
        SessionRestored,
    )

    def __init__(self) -> None:
        # The one that was used last comes last.
        self._kept: OrderedDict[Key, _History] = OrderedDict()
        self._bytes = 0
        self._reading: dict[Key, int] = {}
        """Changes of each history that is being read."""
        self._released: dict[Key, tuple[int, float]] = {}
        """Histories that other nodes may change since a moment: the window of each, and when it was used last."""

    def find(
        self, tenant_id: TenantId, session_id: SessionId, current: MessageId, *, summary: bool, window: int = 0
    ) -> Recalled | None:
        """The history with that message, which is answered now, up to this many tokens; None when it must be read."""
        history = self._kept.get((tenant_id, session_id))
        if history is None or history.summary is not summary or current not in history.messages or history.window < window:
            return None
        history.used_at = anyio.current_time()
        self._kept.move_to_end((tenant_id, session_id))
        recalled = history.recalled
        return Recalled(
            summary=recalled.summary,
            messages=tuple(history.messages.values()),
            truncated=recalled.truncated,
            refused=recalled.refused,
            plain=history.plain,
        )

    @contextmanager
    def reading(self, tenant_id: TenantId, session_id: SessionId, *, summary: bool) -> Iterator[Keep]:
        """Entered before a read of the store; yields a function that caches its result, unless the history has changed in the
        meantime.

        An answer that was truncated is kept with the window that it fills.
        """
        key = (tenant_id, session_id)
        before = self._reading.setdefault(key, 0)

        def keep(recalled: Recalled, window: int = 0) -> None:
            # Beside other turns that wait something was left out that has been said.
            if self._reading.get(key) != before or len(recalled.running) > 1 or (recalled.truncated and not window):
                return
            self._keep(key, recalled, summary, window if recalled.truncated else UNBOUNDED_TOKENS)

        try:
            yield keep
        finally:
            self._reading.pop(key, None)

    def exchanges(self, tenant_id: TenantId, session_id: SessionId) -> Exchanges:
        """The exchanges of the session that models were told before; a new collection for one that is not kept."""
        history = self._kept.get((tenant_id, session_id))
        return Exchanges() if history is None else history.exchanges

    def weigh(self, tenant_id: TenantId, session_id: SessionId) -> int | None:
        """Tokens of a session and of its summary; None when not all of it is kept, or it has files."""
        history = self._kept.get((tenant_id, session_id))
        if history is None or not history.summary or history.window != UNBOUNDED_TOKENS:
            return None
        weight, summary = history.exchanges.weigh(), history.recalled.summary
        return weight if weight is None or summary is None else weight + summary.tokens

    def react(self, event: Event) -> None:
        data, session_id = event.data, event.scope.session_id
        if isinstance(data, SessionCompacted | SessionDeleted | SessionRestored | SessionRewound):
            self.forget(event.tenant_id, data.session_id)
        elif session_id is None:
            return
        elif data.told and not event.seq:
            # Told though it could not be stored: it will be told again.
            self.forget(event.tenant_id, session_id)
        elif isinstance(data, MessageEvent):
            self._add((event.tenant_id, session_id), data.message)

    def expect(self, tenant_id: TenantId, session_id: SessionId, contents: Sequence[EventData]) -> bool:
        """Adds messages that are about to be told; False when the history is not kept. `forget` when they cannot be stored."""
        key = (tenant_id, session_id)
        if key not in self._kept:
            return False
        for data in contents:
            if isinstance(data, MessageEvent):
                self._add(key, data.message)
        return key in self._kept

    def forget(self, tenant_id: TenantId, session_id: SessionId) -> None:
        """The history has changed in another way than by a new message."""
        key = (tenant_id, session_id)
        self._note(key)
        history = self._kept.pop(key, None)
        if history is not None:
            self._bytes -= history.bytes

    def release(self, tenant_id: TenantId, session_id: SessionId) -> None:
        """Other nodes may change the history from now on, or have done so: it must be read again before the next turn."""
        history = self._kept.get((tenant_id, session_id))
        self.forget(tenant_id, session_id)
        if history is not None:
            self._released[tenant_id, session_id] = (history.window, history.used_at)

    def take_released(self, tenant_id: TenantId, session_id: SessionId) -> int | None:
        """The window of a history that was released a moment ago, once: it is worth reading before the next turn begins."""
        return self._released.pop((tenant_id, session_id), (None, 0.0))[0]

    def forget_all(self) -> None:
        """Any history may have changed."""
        for key in (*self._kept, *self._reading):
            self.forget(*key)

    def expire(self) -> None:
        """Drops histories that no turn has needed for a while."""
        oldest = anyio.current_time() - IDLE_SECONDS
        while self._kept and next(iter(self._kept.values())).used_at < oldest:
            self.forget(*next(iter(self._kept)))
        self._released = {key: released for key, released in self._released.items() if released[1] >= oldest}

    def _note(self, key: Key) -> None:
        if key in self._reading:
            self._reading[key] += 1

    def _add(self, key: Key, message: Message) -> None:
        self._note(key)
        history = self._kept.get(key)
        if history is None or message.id in history.messages:
            return
        history.messages[message.id] = message
        history.exchanges.add(message)
        history.plain = history.plain and _is_plain(message)
        size = MESSAGE_BYTES + rough_size(message)
        history.bytes += size
        self._bytes += size
        if history.bytes > history.max_bytes:
            self.forget(*key)

    def _keep(self, key: Key, recalled: Recalled, summary: bool, window: int) -> None:
        self.forget(*key)
        messages: dict[str, Message] = {message.id: message for message in recalled.messages}
        size = sum(MESSAGE_BYTES + rough_size(message) for message in recalled.messages)
        if size > HISTORY_MAX_BYTES:
            return
        cached = replace(recalled, messages=(), running=frozenset())
        most = HISTORY_MAX_BYTES if window == UNBOUNDED_TOKENS else min(HISTORY_MAX_BYTES, size + size // 2 + GROWTH_BYTES)
        plain = not (recalled.summary is not None and recalled.summary.tainted) and all(map(_is_plain, recalled.messages))
        exchanges, now = Exchanges(recalled.messages), anyio.current_time()
        self._kept[key] = _History(cached, summary, messages, size, most, now, window, exchanges, plain)
        self._bytes += size
        while self._bytes > MAX_BYTES:
            self.forget(*next(iter(self._kept)))


def _is_plain(message: Message) -> bool:
    return not (parts_of(message) or is_foreign(message))
