"""MCP credentials — tokens and consents in the database, sealed for exactly one tenant, user and server."""

import hashlib
from dataclasses import dataclass

import msgspec

from agentvm.model.ids import Clock, TenantId
from agentvm.model.secret import Secret
from agentvm.storage.sql.accounts.connections import ConnectionStore, Consent
from agentvm.storage.sql.store import Store
from agentvm.tenants.vault import Vault
from agentvm.tools.mcp.consent import McpGrant, PendingConsent, TokenScope, tenant_of


def digest_state(state: str) -> str:
    """Returns the form in which a state is stored: a reader of the database cannot answer for a user."""
    return hashlib.sha256(state.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedCredentials:
    """The store of consents of a server; see `McpCredentials`."""

    store: Store
    vault: Vault
    clock: Clock

    def connections(self, tenant_id: str) -> ConnectionStore:
        return self.store.accounts(TenantId(tenant_id)).connections

    async def load(self, scope: TokenScope) -> bytes | None:
        caller = scope.caller
        sealed = await self.connections(caller.tenant_id).get(caller.user_id, scope.server)
        return None if sealed is None else self._open(scope, "", sealed)

    async def save(self, scope: TokenScope, grant: bytes) -> None:
        caller, sealed = scope.caller, self._seal(scope, "", grant)
        connected = msgspec.json.decode(grant, type=McpGrant).tokens is not None
        store = self.connections(caller.tenant_id)
        await store.put(caller.user_id, scope.server, sealed, self.clock(), connected=connected)

    async def forget(self, scope: TokenScope) -> None:
        await self.connections(scope.caller.tenant_id).remove(scope.caller.user_id, scope.server)

    async def put_pending(self, state: str, pending: bytes, expires_at: float) -> None:
        scope = msgspec.json.decode(pending, type=PendingConsent).token_scope
        digest = digest_state(state)
        consent = Consent(scope.caller.user_id, scope.server, self._seal(scope, digest, pending))
        await self.connections(scope.caller.tenant_id).put_consent(digest, consent, self.clock(), int(expires_at * 1000))

    async def find_pending(self, state: str) -> bytes | None:
        digest, tenant_id = digest_state(state), tenant_of(state)
        return self._consent(tenant_id, digest, await self.connections(tenant_id).find_consent(digest, self.clock()))

    async def take_pending(self, state: str) -> bytes | None:
        digest, tenant_id = digest_state(state), tenant_of(state)
        return self._consent(tenant_id, digest, await self.connections(tenant_id).take_consent(digest, self.clock()))

    def _consent(self, tenant_id: str, digest: str, consent: Consent | None) -> bytes | None:
        if consent is None:
            return None
        return self._open(TokenScope.of(tenant_id, consent.user_id, consent.server), digest, consent.sealed)

    def _seal(self, scope: TokenScope, state: str, value: bytes) -> bytes:
        return self.vault.seal(scope.caller.tenant_id, _name(scope, state), Secret(value.decode()))

    def _open(self, scope: TokenScope, state: str, sealed: bytes) -> bytes:
        return self.vault.unseal(scope.caller.tenant_id, _name(scope, state), sealed).reveal().encode()


def _name(scope: TokenScope, state: str) -> str:
    """Returns the name under which a value is sealed: no other user, server or state opens it."""
    return msgspec.json.encode(["mcp", scope.caller.user_id, scope.server, state]).decode()
