"""Accounts — tenants, their users, keys and quotas, and the audit log of their administration."""

from typing import Literal

from agentvm.model.base import Record
from agentvm.model.ids import BrowserSessionId, InvitationId, KeyId, TenantId, UserId

AccountStatus = Literal["active", "suspended"]
UserRole = Literal["owner", "admin", "member", "viewer"]


class Tenant(Record):
    """A customer. `slug` is its name in URLs and commands; unique among tenants that are not deleted."""

    tenant_id: TenantId
    slug: str
    name: str
    description: str | None = None
    status: AccountStatus = "active"
    plan: str | None = None
    created_at: int
    updated_at: int


class User(Record):
    """A user of a tenant. `external_id` is the tenant's own name for them; unique within it."""

    user_id: UserId
    tenant_id: TenantId
    external_id: str
    display_name: str | None = None
    role: UserRole = "member"
    status: AccountStatus = "active"
    created_at: int
    updated_at: int


class ApiKey(Record):
    """The record of a key, without the key. `containers` as in `Principal`; None for a key of a user: the user's own."""

    key_id: KeyId
    tenant_id: TenantId
    name: str
    user_id: UserId | None = None
    role: UserRole | None = None
    """The most that a key of a user acts with: the role they had when it was made. A promotion needs a new key."""
    permissions: tuple[str, ...] = ()
    containers: tuple[str, ...] | None = None
    expires_at: int | None = None
    created_by: str
    created_at: int
    last_used_at: int | None = None
    revoked_at: int | None = None

    def is_valid(self, now: int) -> bool:
        """Whether it is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now)


class BrowserSession(Record):
    """A browser that is signed in with a key, without its cookie."""

    browser_session_id: BrowserSessionId
    tenant_id: TenantId
    key_id: KeyId
    user_id: UserId | None = None
    user_agent: str
    """The name that the browser gave itself, shortened."""
    created_at: int
    last_used_at: int


class Invitation(Record):
    """A link that makes one user, without the link. `user_id` is the user that it has made."""

    invitation_id: InvitationId
    tenant_id: TenantId
    role: UserRole
    external_id: str | None = None
    """The name that the user will have; None lets the invited person choose one."""
    display_name: str | None = None
    created_by: str
    created_at: int
    expires_at: int
    accepted_at: int | None = None
    revoked_at: int | None = None
    user_id: UserId | None = None


class Preferences(Record):
    """How a user likes the console; None leaves the choice to the browser."""

    language: Literal["en", "zh"] | None = None
    theme: Literal["light", "dark"] | None = None
    send_key: Literal["enter", "modifier"] | None = None
    """The key that sends a message: Enter, or Enter together with Ctrl or Command."""
    density: Literal["regular", "dense"] | None = None
    shortcuts: Literal["on", "off"] | None = None
    """Whether single letters are commands."""


QuotaWindow = Literal["minute", "day", "month"]

METRICS: dict[str, QuotaWindow | None] = {
    "requests_per_minute": "minute",
    "connections": None,
    "containers": None,
    "images_per_container": None,
    "running_agents": None,
    "running_tools": None,
    "queued_messages": None,
    "tokens_per_day": "day",
    "tokens_per_month": "month",
    "budget_per_month": "month",
    "storage_bytes": None,
    "stored_bytes_per_day": "day",
    "sandbox_seconds_per_day": "day",
    "resources": None,
    "webhooks": None,
    "export_bytes_per_day": "day",
}
"""The metrics that can be limited, each with the window after which it is renewed. `budget_per_month` counts nano-USD of
price."""


OF_USERS = (
    "requests_per_minute",
    "connections",
    "tokens_per_day",
    "tokens_per_month",
    "budget_per_month",
    "stored_bytes_per_day",
)
"""Metrics that are counted for each user, too; the others belong to a tenant as a whole."""

EACH_USER = UserId("*")
"""The user id of a limit that holds for each user of the tenant without an own one."""


class Quota(Record):
    """A limit of a tenant, or with `user_id` of one user of it. `soft` warns, `hard` refuses; either may be absent."""

    metric: str
    hard: int | None = None
    soft: int | None = None
    user_id: UserId | None = None


class Allowance(Record):
    """Limits by metric, as an operator writes them down for a plan."""

    quotas: tuple[Quota, ...] = ()


class Plan(Record):
    """Limits of a tenant as a whole, and of each of its users, unless explicit limits replace them."""

    limits: Allowance = Allowance()
    users: Allowance = Allowance()


class AuditEntry(Record):
    """One administrative write: actor, action, target, time and result."""

    at: int
    tenant_id: TenantId
    actor: str
    action: str
    target: str
    result: str
    address: str | None = None
    request_id: str | None = None
