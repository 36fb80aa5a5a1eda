"""Webhook — an address of a tenant to which events are sent, the notices that it gets, and the deliveries of them."""

from typing import Literal, NewType

import msgspec

from agentvm.model.base import Record
from agentvm.model.ids import ContainerId, TenantId

WebhookId = NewType("WebhookId", str)

WebhookEvent = Literal["turn.completed", "turn.failed", "turn.interrupted", "session.created", "wait.created", "quota.warning"]
"""The events that a webhook can receive."""

TEST_EVENT = "webhook.test"

DisableReason = Literal["failing", "gone"]
"""Why the server disabled a webhook: nothing was taken for days, or the receiver answered 410."""

DeliveryState = Literal["pending", "delivered", "failed"]


class Notice(Record):
    """One event as a webhook receives it. The same event has the same id however often it is sent."""

    event_id: str
    type: str
    at: int
    container_id: ContainerId | None = None
    data: dict[str, object] = msgspec.field(default_factory=dict)


class Webhook(Record):
    """An address of a tenant, with the events that it receives. The secrets are sealed."""

    webhook_id: WebhookId
    url: str
    events: tuple[WebhookEvent, ...]
    description: str | None = None
    secret: bytes
    previous_secret: bytes | None = None
    """The secret before the last rotation, which signs as well until `previous_until`."""
    previous_until: int | None = None
    created_by: str
    created_at: int
    updated_at: int
    failing_since: int | None = None
    """The time of the first failure since the last success."""
    disabled_at: int | None = None
    disabled_reason: DisableReason | None = None


class Delivery(Record):
    """One notice to one webhook. It is pending while `next_at` says when it is tried."""

    number: int
    event_id: str
    type: str
    created_at: int
    attempts: int = 0
    next_at: int | None = None
    last_at: int | None = None
    delivered_at: int | None = None
    status: int | None = None
    """The HTTP status of the last response; None without a response."""
    error: str | None = None

    @property
    def state(self) -> DeliveryState:
        if self.next_at is not None:
            return "pending"
        return "failed" if self.delivered_at is None else "delivered"


class DueDelivery(Record):
    """A delivery that is to be tried, with its webhook and the body to send."""

    tenant_id: TenantId
    webhook_key: int
    webhook: Webhook
    delivery: Delivery
    body: bytes


class Attempted(Record):
    """The result of one attempt. `status` is None without a response, and `error` None if the notice was taken."""

    at: int
    status: int | None = None
    error: str | None = None
    next_at: int | None = None
    disable: DisableReason | None = None
