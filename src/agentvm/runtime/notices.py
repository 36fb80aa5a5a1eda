"""Notices — the events of a session that webhooks receive. Pure."""

from collections.abc import Sequence

import msgspec

from agentvm.events.base import Event, EventScope
from agentvm.events.lifecycle import QuotaWarning
from agentvm.events.tool import WaitChanged
from agentvm.events.turn import TurnResponse
from agentvm.model.base import Record, record_from
from agentvm.model.ids import ContainerId, ImageId, MessageId, SessionId, TurnId, is_sub_session
from agentvm.model.usage import Usage
from agentvm.model.wait import ToolWait, WaitId, WaitKind
from agentvm.model.webhook import Notice


class TurnNotice(Record):
    """The end of a turn. The answer itself is read from `/v1/turns/{turnId}`."""

    turn_id: TurnId
    session_id: SessionId | None
    image_id: ImageId | None
    container_id: ContainerId | None
    message_id: MessageId
    outcome: str
    stop_reason: str
    duration: int
    usage: Usage
    model: str | None = None


class WaitNotice(Record):
    """A tool call that waits for an answer. Its input is read from `/v1/waits/{waitId}`."""

    wait_id: WaitId
    turn_id: TurnId
    session_id: SessionId
    container_id: ContainerId
    kind: WaitKind
    tool: str
    why: str
    expires_at: int


class QuotaNotice(Record):
    """A soft limit that is reached."""

    metric: str
    limit: int
    used: int
    reset_at: int | None = None
    turn_id: TurnId | None = None
    container_id: ContainerId | None = None


def notices_of(events: Sequence[Event]) -> list[Notice]:
    """Returns the notices of these events, in order."""
    notices: list[Notice] = []
    for event in events:
        match event.data:
            case TurnResponse() as ended if not is_sub_session(event.scope.session_id or SessionId("")):
                notices.append(_turn_notice(ended, event.scope))
            case WaitChanged(change=ToolWait() as wait) if wait.kind != "child":
                notices.append(_wait_notice(wait))
            case QuotaWarning() as warning:
                notices.append(_quota_notice(warning, event))
            case _:
                pass
    return notices


def _turn_notice(ended: TurnResponse, scope: EventScope) -> Notice:
    data = TurnNotice(
        turn_id=ended.turn_id,
        session_id=scope.session_id,
        image_id=scope.image_id,
        container_id=scope.container_id,
        message_id=ended.message_id,
        outcome=ended.outcome,
        stop_reason=ended.stop_reason,
        duration=ended.duration,
        usage=ended.usage,
        model=ended.model,
    )
    return _notice(f"turn.{ended.outcome}", ended.turn_id, ended.timestamp, scope.container_id, data)


def _wait_notice(wait: ToolWait) -> Notice:
    return _notice("wait.created", wait.wait_id, wait.asked_at, wait.container_id, record_from(WaitNotice, wait))


def _quota_notice(warning: QuotaWarning, event: Event) -> Notice:
    scope = event.scope
    data = record_from(QuotaNotice, scope, warning)
    # A turn warns of a metric once.
    about = f"{scope.turn_id or scope.session_id}_{warning.metric}"
    return _notice("quota.warning", about, event.timestamp, scope.container_id, data)


def _notice(kind: str, about: str, at: int, container_id: ContainerId | None, data: Record) -> Notice:
    return Notice(event_id=f"evt_{about}", type=kind, at=at, container_id=container_id, data=msgspec.to_builtins(data))
