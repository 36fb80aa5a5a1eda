"""Principal — an authenticated caller and its permissions. Comes only from authentication, never from a client's claim."""

import re
from fnmatch import fnmatchcase

from agentvm.errors import PermissionDenied
from agentvm.model.account import UserRole
from agentvm.model.base import Record
from agentvm.model.ids import CONTAINER_ID_MAX, BrowserSessionId, ContainerId, InvitationId, KeyId, TenantId, UserId

PERMISSIONS: tuple[str, ...] = (
    "agent:use",
    "images:read",
    "images:write",
    "sessions:read",
    "sessions:export",
    "resources:read",
    "resources:write",
    "resources:publish",
    "tools:invoke",
    "config:read",
    "config:write",
    "metrics:read",
    "logs:read",
    "usage:read",
    "usage:write",
    "tenants:admin",
    "keys:admin",
    "system:admin",
)
"""The permissions of keys. `tenants:admin` is for the users, quotas and secrets of one's own tenant; `system:admin` is for
the operator of the server, and alone reaches across tenants."""

EVERYTHING = frozenset(PERMISSIONS)
MEMBER = EVERYTHING & {
    "agent:use",
    "images:read",
    "images:write",
    "sessions:read",
    "sessions:export",
    "resources:read",
    "tools:invoke",
    "usage:read",
}
"""Default permissions of a user's own key."""


_LAST = "\U0010ffff" * CONTAINER_ID_MAX
"""Comes after everything that a name can go on with."""

ANONYMOUS = "anonymous"
"""The actor where authentication is off."""


class Principal(Record):
    """`containers` are the ones it may reach: None for all of its tenant, else names or patterns (`user-*`)."""

    tenant_id: TenantId
    user_id: UserId | None = None
    role: UserRole | None = None
    """The role of the key, at most the user's; None for a key without a user."""
    key_id: KeyId | None = None
    browser_session_id: BrowserSessionId | None = None
    """Set for a browser that is signed in with the key."""
    invitation_id: InvitationId | None = None
    """Set for a person who has nothing but an invitation: it has no rights but to accept it."""
    permissions: frozenset[str] = frozenset()
    containers: tuple[str, ...] | None = None
    expires_at: int | None = None
    """Expiry of its credentials, in ms; a socket is closed then."""

    def may(self, permission: str) -> bool:
        return permission in self.permissions

    def require(self, permission: str) -> None:
        """`PermissionDenied` unless the principal has the permission."""
        if not self.may(permission):
            raise PermissionDenied(permission)

    def reaches(self, container_id: ContainerId | str) -> bool:
        return self.containers is None or any(fnmatchcase(container_id, pattern) for pattern in self.containers)

    @property
    def ranges(self) -> tuple[tuple[str, str], ...]:
        """The first and the last name of the containers that each of its patterns may match."""
        begins = [(pattern, re.split(r"[*?[]", pattern, maxsplit=1)[0]) for pattern in self.containers or ("*",)]
        return tuple((begin, begin if begin == pattern else begin + _LAST) for pattern, begin in begins)

    @property
    def home(self) -> ContainerId | None:
        """The container that it means where it names none."""
        return next(iter(self.named_containers), None)

    @property
    def named_containers(self) -> tuple[ContainerId, ...]:
        """The containers that it is bound to by their names, and not by a pattern."""
        return tuple(ContainerId(pattern) for pattern in self.containers or () if not set(pattern) & set("*?["))

    @property
    def actor(self) -> str:
        """The user and the key for the audit log, as far as there are any."""
        return "/".join(name for name in (self.user_id, self.key_id, self.invitation_id) if name) or ANONYMOUS
