"""Consents — consents of users that AgentVM acts for them on MCP servers; waiting calls then continue."""

from dataclasses import dataclass

from agentvm.errors import AgentVMError, InvalidInput
from agentvm.log import get_logger
from agentvm.model.ids import TenantId, UserId
from agentvm.model.wait import ToolWait, WaitAnswer
from agentvm.runtime.runtime import Runtime
from agentvm.storage.sql.store import Store
from agentvm.tools.base import Caller
from agentvm.tools.mcp.consent import PendingConsent, TokenScope
from agentvm.tools.mcp.credentials import digest_state
from agentvm.tools.mcp.servers import McpServers

logger = get_logger(__name__)

WAITS_MAX = 1_000
"""Waits for a consent that are read at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consents:
    """The consents of all users of a server."""

    store: Store
    runtime: Runtime
    servers: McpServers

    async def show(self, state: str, issuer: str | None) -> tuple[PendingConsent, str]:
        """Returns the consent that a state belongs to, and the name of the user who needs it.

        `InvalidInput` for a state that was used or has expired, and for the callback of another authorization server.
        """
        pending = await self.servers.consent(state, issuer)
        if not pending.user_id:
            return pending, "everybody who uses this server"
        user = await self.store.accounts(TenantId(pending.tenant_id)).users.get(UserId(pending.user_id))
        if user is None:
            raise InvalidInput("The user who requested this consent no longer exists")
        return pending, user.display_name or user.external_id

    async def finish(self, *, state: str, code: str, issuer: str | None, caller: Caller | None) -> PendingConsent:
        """Exchanges the code of a callback, and lets every call that has waited for this consent continue.

        `caller` is the person at the browser, if it is known who that is.
        """
        pending = await self.servers.consent(state, issuer)
        tenant_id = TenantId(pending.tenant_id)
        connections = self.store.accounts(tenant_id).connections
        # Other calls of the user may wait for the same server, each with its own state.
        states = await connections.states(pending.user_id, pending.server)
        await self.servers.finish(state=state, code=code, issuer=issuer, caller=caller)
        await connections.drop_consents(pending.user_id, pending.server)
        by, waits, after = UserId(pending.user_id) if pending.user_id else None, self.store.tenant(tenant_id).waits(None), 0
        while page := await waits.list_consents(WAITS_MAX, after):
            after = page[-1][0]
            for _, wait in page:
                if wait.kind == "consent" and wait.state is not None and digest_state(wait.state) in states:
                    await self._go_on(tenant_id, wait, by)
        return pending

    async def _go_on(self, tenant_id: TenantId, wait: ToolWait, by: UserId | None) -> None:
        """Lets one call continue. One that cannot keeps no other waiting: the consent is stored, and can be approved later."""
        try:
            await self.runtime.answer_wait(tenant_id, wait, WaitAnswer(decision="approve"), by)
        except AgentVMError as error:
            logger.error("consent_not_answered", wait_id=wait.wait_id, code=error.code, error=str(error))

    async def disconnect(self, tenant_id: TenantId, user_id: str, server: str) -> bool:
        """Forgets the tokens of a user for a server, and revokes them where that is offered; False if there are none."""
        return await self.servers.disconnect(TokenScope.of(tenant_id, user_id, server))
