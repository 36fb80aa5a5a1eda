"""Roster — the agents in memory, and the ids of those that were evicted.

A sleeper is an agent that left memory while its session still has subscribers: only its ids are kept, so that the agent id of a
client stays valid. Without subscribers nothing is kept.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import msgspec

from agentvm.model.ids import AgentId, ContainerId, ImageId, SessionId, TenantId
from agentvm.protocol.records import AgentStateName
from agentvm.runtime.agent import Agent
from agentvm.runtime.busy_agents import BusyAgents


class Sleeper(msgspec.Struct, frozen=True):
    """The names of an agent that left memory."""

    tenant_id: TenantId
    container_id: ContainerId
    image_id: ImageId
    session_id: SessionId
    agent_id: AgentId


Present = Agent | Sleeper


class Roster:
    """At most one agent per session, awake or asleep."""

    def __init__(self, busy: BusyAgents | None = None) -> None:
        self._busy = busy or BusyAgents()
        self._awake: dict[AgentId, Agent] = {}
        self._asleep: dict[AgentId, Sleeper] = {}
        self._by_container: dict[tuple[TenantId, ContainerId], dict[SessionId, Present]] = {}
        self._by_image: dict[tuple[TenantId, ImageId], dict[SessionId, Agent]] = {}

    def __iter__(self) -> Iterator[Agent]:
        """The agents in memory."""
        return iter(tuple(self._awake.values()))

    def __len__(self) -> int:
        return len(self._awake)

    def find(self, tenant_id: TenantId, agent_id: AgentId) -> Present | None:
        agent = self._awake.get(agent_id) or self._asleep.get(agent_id)
        return agent if agent is not None and agent.tenant_id == tenant_id else None

    def get(self, tenant_id: TenantId, container_id: ContainerId, session_id: SessionId) -> Present | None:
        return self._by_container.get((tenant_id, container_id), {}).get(session_id)

    def awake(self, tenant_id: TenantId, image_id: ImageId, session_id: SessionId | None) -> Agent | None:
        """The agent in memory of a session of the image, by default of its default session, if its image is up to date."""
        for agent in self._by_image.get((tenant_id, image_id), {}).values():
            sleeping = self._by_image[tenant_id, image_id].get(session_id or agent.image.session_id)
            return sleeping if sleeping is not None and sleeping.follows_image else None
        return None

    def of_container(self, tenant_id: TenantId, container_id: ContainerId) -> tuple[Present, ...]:
        return tuple(self._by_container.get((tenant_id, container_id), {}).values())

    @staticmethod
    def activity(present: Present) -> tuple[AgentStateName, int]:
        """The state of an agent, and the number of messages that wait behind its running turn."""
        return (present.state.value, len(present.inbox)) if isinstance(present, Agent) else ("asleep", 0)

    def add(self, agent: Agent) -> None:
        """In place of the sleeper, if there is one."""
        self._asleep.pop(agent.agent_id, None)
        self._awake[agent.agent_id] = agent
        self._by_container.setdefault((agent.tenant_id, agent.container_id), {})[agent.session_id] = agent
        self._by_image.setdefault((agent.tenant_id, agent.image_id), {})[agent.session_id] = agent

    def remove(self, present: Present) -> bool:
        """Whether it was there."""
        agent: Present | None = self._awake.get(present.agent_id) or self._asleep.get(present.agent_id)
        if agent is None or (agent is not present and agent != present):
            # Gone, or it has another body by now.
            return False
        if self._awake.pop(present.agent_id, None) is not None:
            _discard(self._by_image, (agent.tenant_id, agent.image_id), agent.session_id)
        self._asleep.pop(present.agent_id, None)
        _discard(self._by_container, (agent.tenant_id, agent.container_id), agent.session_id)
        return True

    def count_running(self, tenant_id: TenantId | None = None) -> int:
        """Returns the number of one tenant, or of all. Called for each message, so it visits no agent."""
        return self._busy.count(tenant_id)

    def count_waiting(self, tenant_id: TenantId | None = None) -> int:
        """Messages that wait for a turn to end."""
        return sum(len(agent.inbox) for agent in self._awake.values() if tenant_id in (None, agent.tenant_id))

    def count_containers(self) -> int:
        """Returns the number of containers with an agent in memory."""
        return len({(agent.tenant_id, agent.container_id) for agent in self._awake.values()})

    def resting(self) -> Sequence[Agent]:
        """Returns the agents that can be unloaded, the longest idle first."""
        return sorted((agent for agent in self._awake.values() if agent.resting), key=lambda agent: agent.used_at)

    def evict_agent(self, agent: Agent) -> None:
        """Only its names stay."""
        self.remove(agent)
        names = Sleeper(agent.tenant_id, agent.container_id, agent.image.image_id, agent.session_id, agent.agent_id)
        self._asleep[agent.agent_id] = names
        self._by_container.setdefault((agent.tenant_id, agent.container_id), {})[agent.session_id] = names

    def forget_sleepers(self, is_heard: Callable[[TenantId, SessionId], bool]) -> None:
        """Drops ids that no client uses any more."""
        for names in tuple(self._asleep.values()):
            if not is_heard(names.tenant_id, names.session_id):
                self.remove(names)


K = TypeVar("K")


def _discard(index: dict[K, dict[SessionId, Agent]] | dict[K, dict[SessionId, Present]], key: K, session_id: SessionId) -> None:
    del index[key][session_id]
    if not index[key]:
        del index[key]
