"""Retention — `/v1/retention`: how long a tenant keeps what was said, and what the next look will delete."""

from dataclasses import replace
from typing import Annotated

from msgspec import Meta, structs

from agentvm.model.base import Record
from agentvm.model.ids import TenantId
from agentvm.model.retention import FOREVER_DAYS
from agentvm.server.http.config import READ
from agentvm.server.http.route import Ask, Given, Routes

routes = Routes()

Days = Annotated[int, Meta(ge=1, le=FOREVER_DAYS)]


class TryGiven(Given):
    """Days to try in place of those in force. Nothing is set by asking."""

    session_days: Days | None = None
    archived_days: Days | None = None
    rewound_days: Days | None = None
    message_days: Days | None = None


class PolicyView(Record, omit_defaults=False):
    """Days; null for never. `archived_days` is null for as the others."""

    session_days: int | None
    archived_days: int | None
    rewound_days: int | None
    message_days: int | None


class DueView(Record, omit_defaults=False):
    """`emptied` are default sessions of images, which cannot go. `messages` and `bytes` are of all that goes."""

    sessions: int
    emptied: int
    messages: int
    bytes: int


class RetentionView(Record):
    """`policy` is in force; `due` is what it would delete now, or what the days that were given would."""

    tenant_id: TenantId
    policy: PolicyView
    due: DueView


@routes.add("GET", "/v1/retention", needs=READ, takes=TryGiven)
async def show(ask: Ask[TryGiven]) -> RetentionView:
    """See how long what was said is kept, and what would be deleted now.

    Counts everything that is too old: worth asking before a policy is set, not every second.
    """
    retainer = ask.vm.retainer
    policy = retainer.policy_of(ask.tenant_id)
    tried = {name: days for name, days in structs.asdict(ask.given).items() if days is not None}
    due = await retainer.preview(ask.tenant_id, replace(policy, **tried))
    return RetentionView(
        tenant_id=ask.tenant_id,
        policy=PolicyView(
            session_days=policy.session_days,
            archived_days=policy.archived_days,
            rewound_days=policy.rewound_days,
            message_days=policy.message_days,
        ),
        due=DueView(sessions=due.sessions, emptied=due.emptied, messages=due.messages, bytes=due.bytes),
    )
