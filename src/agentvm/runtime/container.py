"""Container — the agents of one user's isolation boundary while any of them lives; otherwise it is only rows."""

from collections.abc import Iterator

from agentvm.model.ids import ContainerId, ImageId, SessionId, TenantId
from agentvm.runtime.agent import Agent


class Container:
    """At most one agent per session."""

    def __init__(self, tenant_id: TenantId, container_id: ContainerId) -> None:
        self.tenant_id = tenant_id
        self.container_id = container_id
        self._agents: dict[SessionId, Agent] = {}

    def __iter__(self) -> Iterator[Agent]:
        return iter(tuple(self._agents.values()))

    def __len__(self) -> int:
        return len(self._agents)

    def get(self, session_id: SessionId) -> Agent | None:
        return self._agents.get(session_id)

    def of_image(self, image_id: ImageId) -> tuple[Agent, ...]:
        return tuple(agent for agent in self if agent.image.image_id == image_id)

    def add(self, agent: Agent) -> None:
        self._agents[agent.session_id] = agent

    def remove(self, agent: Agent) -> None:
        self._agents.pop(agent.session_id, None)
