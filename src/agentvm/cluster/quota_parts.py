"""Quota parts — asks other nodes to return the unused parts of a tenant's limits."""

from collections.abc import Sequence

import anyio

from agentvm.cluster.mailbox import Answered, Mailbox
from agentvm.errors import AgentVMError
from agentvm.log import get_logger
from agentvm.model.ids import TenantId
from agentvm.runtime.tasks import open_tasks
from agentvm.tenants.quota import Quotas

logger = get_logger(__name__)

KIND = "quota_parts"
ANSWER_TIMEOUT_SECONDS = 2.0
"""A request waits so long for other nodes before it is refused."""


class PartExchange:
    """Requests unused parts of limits from other nodes, and returns its own on request."""

    def __init__(self, mailbox: Mailbox, quotas: Quotas) -> None:
        self._mailbox, self._quotas = mailbox, quotas
        mailbox.serving[KIND] = self._serve
        if quotas.parts is not None:
            quotas.parts.reclaim = self.reclaim

    async def reclaim(self, tenant_id: TenantId, nodes: Sequence[int]) -> None:
        """Returns when the running nodes have returned their unused parts, or after a timeout."""
        with anyio.move_on_after(ANSWER_TIMEOUT_SECONDS):
            async with open_tasks() as tasks:
                for node_id in self._mailbox.membership.up & {*nodes}:
                    tasks.start_soon(self._ask, tenant_id, node_id)

    async def _ask(self, tenant_id: TenantId, node_id: int) -> None:
        try:
            await self._mailbox.ask(node_id, tenant_id.encode(), KIND)
        except AgentVMError as error:
            logger.warning("quota_not_given_back", node_id=node_id, code=error.code, error=str(error))

    async def _serve(self, body: bytes) -> Answered:
        try:
            await self._quotas.give_back(TenantId(body.decode()))
        except AgentVMError as error:
            logger.warning("quota_not_given_back", code=error.code, error=str(error))
        return b"", lambda: None
