"""Retention — how long a tenant keeps its messages and sessions, and which of them the next run deletes."""

from dataclasses import replace
from typing import Annotated

import msgspec
from msgspec import Meta

from agentvm.model.base import Record
from agentvm.model.ids import TenantId
from agentvm.model.retention import FOREVER_DAYS
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.protocol.requests import Request

operation = OperationGroup("retention")

Days = Annotated[int, Meta(ge=1, le=FOREVER_DAYS)]


class PolicyView(Record, omit_defaults=False):
    """Numbers of days; null for never. `archivedDays` is null when archived sessions are kept as long as others."""

    session_days: int | None
    archived_days: int | None
    stateless_days: int | None
    rewound_days: int | None
    message_days: int | None


class DueView(Record, omit_defaults=False):
    """`emptied` counts default sessions of images, which are kept without their messages.

    `messages` and `bytes` include those of the deleted sessions.
    """

    sessions: int
    emptied: int
    messages: int
    bytes: int


class RetentionView(Record):
    """`policy` is in force; `due` counts the sessions that it would delete now, or the requested days would."""

    tenant_id: TenantId
    policy: PolicyView
    due: DueView


class RetentionShow(Request[RetentionView]):
    """Days to try in place of those in force. Nothing is changed."""

    session_days: Days | None = None
    archived_days: Days | None = None
    stateless_days: Days | None = None
    rewound_days: Days | None = None
    message_days: Days | None = None


@operation("retention.show", needs="config:read", http=Http("GET", "/v1/retention"))
async def show(context: Context, request: RetentionShow) -> RetentionView:
    """Show the retention policy, and count the data it would delete now.

    Counts all expired messages, which takes time: call it before changing a policy, not periodically.
    """
    retainer, tenant_id = context.vm.retainer, context.tenant_id
    policy = retainer.policy_of(tenant_id)
    tried = {name: days for name, days in msgspec.structs.asdict(request).items() if days is not None}
    due = await retainer.preview(tenant_id, replace(policy, **tried))
    return RetentionView(
        tenant_id=tenant_id,
        policy=msgspec.convert(policy, PolicyView, from_attributes=True),
        due=msgspec.convert(due, DueView, from_attributes=True),
    )
