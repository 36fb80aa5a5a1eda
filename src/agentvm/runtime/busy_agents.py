"""Busy agents — counts the agents of each tenant that have a turn which runs or waits, without looking at the others."""

from agentvm.model.ids import AgentId, TenantId


class BusyAgents:
    """Kept up to date by the agents themselves."""

    def __init__(self) -> None:
        self._agents: dict[TenantId, set[AgentId]] = {}

    def note(self, tenant_id: TenantId, agent_id: AgentId, busy: bool) -> None:
        """To be called by an agent whenever that may have changed."""
        agents = self._agents.setdefault(tenant_id, set())
        if busy:
            agents.add(agent_id)
        else:
            agents.discard(agent_id)
            if not agents:
                del self._agents[tenant_id]

    def count(self, tenant_id: TenantId | None = None) -> int:
        """Returns the number of one tenant, or of all."""
        return sum(map(len, self._agents.values())) if tenant_id is None else len(self._agents.get(tenant_id, ()))
