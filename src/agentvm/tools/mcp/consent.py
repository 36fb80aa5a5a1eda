"""MCP consent — where a user's permission to act for him on a server is kept, and the wait for it.

Everything is kept by (tenant, user, server): the SDK's own storage has no such argument, and other systems gave one user's
token to another. There is no credential of the operator that could stand in for a missing one.
"""

import secrets
from dataclasses import dataclass
from typing import Protocol

import msgspec

from agentvm.errors import InvalidInput
from agentvm.model.base import Record
from agentvm.tools.base import Caller

CALLBACK = "/v1/mcp/callback"
"""The page that an authorization server sends users back to."""
CLIENT = "/v1/mcp/client"
"""The document by which authorization servers know this server without a registration."""
CONSENT_SECONDS = 60 * 60
"""Time that a user has to consent; then the consent is requested again."""


@dataclass(frozen=True, slots=True)
class TokenScope:
    """The owner of tokens, and the server they are for."""

    caller: Caller
    server: str
    """The server's address."""

    @classmethod
    def of(cls, tenant_id: str, user_id: str, server: str) -> "TokenScope":
        return cls(Caller(tenant_id, user_id), server)


def client_metadata(redirect_uri: str) -> dict[str, object]:
    """Returns the description of this server as a client of authorization servers."""
    return {
        "redirect_uris": [redirect_uri],
        "client_name": "AgentVM",
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }


def new_state(tenant_id: str) -> str:
    """Returns the state of a new consent: it cannot be guessed, and the callback finds the tenant by it."""
    return f"{secrets.token_urlsafe(32)}.{tenant_id}"


def tenant_of(state: str) -> str:
    return state.partition(".")[2]


class McpCredentials(Protocol):
    """The store of consents. Values are secret: a store seals them under their scope, and deletes them with the user."""

    async def load(self, scope: TokenScope) -> bytes | None: ...

    async def save(self, scope: TokenScope, grant: bytes) -> None: ...

    async def forget(self, scope: TokenScope) -> None: ...

    async def put_pending(self, state: str, pending: bytes, expires_at: float) -> None:
        """Keeps a wait for consent until a time (seconds since 1970)."""

    async def find_pending(self, state: str) -> bytes | None:
        """Returns a wait that has not expired."""

    async def take_pending(self, state: str) -> bytes | None:
        """Returns and removes a wait that has not expired: a state is used once."""


class McpGrant(Record):
    """All that is kept of a consent; sealed by the store."""

    tokens: dict[str, object] | None = None
    expires_at: float | None = None
    client: dict[str, object] | None = None
    metadata: dict[str, object] | None = None
    resource_metadata: dict[str, object] | None = None


class PendingConsent(Record):
    """A wait for consent: the facts for the callback, in whichever process it arrives."""

    tenant_id: str
    user_id: str
    server: str
    verifier: str
    redirect_uri: str
    token_endpoint: str
    issuer: str | None
    issuer_required: bool
    """Whether the authorization server names itself in every callback, so that a callback without it is another's."""
    resource: str | None
    client: dict[str, object]
    metadata: dict[str, object] | None
    resource_metadata: dict[str, object] | None
    scope: str | None = None

    @property
    def token_scope(self) -> TokenScope:
        return TokenScope(Caller(self.tenant_id, self.user_id), self.server)


def read_pending(stored: bytes | None, issuer: str | None) -> PendingConsent:
    """Returns a wait for consent; `InvalidInput` if there is none, or if it waits for another authorization server."""
    if stored is None:
        raise InvalidInput("This consent has expired, or was used already; make the call again")
    pending = msgspec.json.decode(stored, type=PendingConsent)
    # Compared as they are: two addresses that mean the same may belong to two servers.
    if (issuer is None and pending.issuer_required) or (issuer is not None and issuer != pending.issuer):
        raise InvalidInput("This consent is from another authorization server than the requested one")
    return pending
