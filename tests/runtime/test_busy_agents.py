from agentvm.model.ids import AgentId, TenantId
from agentvm.runtime.busy_agents import BusyAgents

A, B = TenantId("a"), TenantId("b")


def test_each_busy_agent_is_counted_once_for_its_tenant() -> None:
    busy = BusyAgents()
    for tenant_id, name, state in ((A, "1", True), (A, "1", True), (A, "2", True), (B, "3", True), (A, "4", False)):
        busy.note(tenant_id, AgentId(name), state)
    assert [busy.count(tenant_id) for tenant_id in (A, B, TenantId("c"), None)] == [2, 1, 0, 3]
    for tenant_id, name in ((A, "1"), (A, "1"), (B, "3")):
        busy.note(tenant_id, AgentId(name), False)
    assert [busy.count(tenant_id) for tenant_id in (A, B, None)] == [1, 0, 1]
