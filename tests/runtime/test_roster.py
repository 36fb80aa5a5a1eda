from tests.runtime.fixtures import open_world

from agentvm.drivers.scripted import ScriptedDriver
from agentvm.model.ids import DEFAULT_TENANT, AgentId, ContainerId, SessionId, TenantId
from agentvm.runtime.roster import Roster, Sleeper

OTHER = TenantId("other")


async def test_agents_are_found_by_tenant_container_and_id() -> None:
    async with open_world(ScriptedDriver()) as world:
        image, roster = world.image, Roster()
        first = world.start()
        second = world.runtime.start_agent(DEFAULT_TENANT, image, SessionId("sess_2"))[0]
        for agent in (first, second, first):
            roster.add(agent)
        assert list(roster) == [first, second]
        assert len(roster) == 2
        assert roster.find(DEFAULT_TENANT, first.agent_id) is first
        assert roster.find(OTHER, first.agent_id) is None
        assert roster.find(DEFAULT_TENANT, AgentId("nobody")) is None
        assert roster.get(DEFAULT_TENANT, image.container_id, first.session_id) is first
        assert roster.get(OTHER, image.container_id, first.session_id) is None
        assert roster.of_container(DEFAULT_TENANT, image.container_id) == (first, second)
        assert roster.of_container(DEFAULT_TENANT, ContainerId("c2")) == ()
        assert [roster.remove(agent) for agent in (first, first, second)] == [True, False, True]
        assert roster.of_container(DEFAULT_TENANT, image.container_id) == ()


async def test_an_awake_agent_is_found_by_its_image_once_that_was_read_beside_it() -> None:
    async with open_world(ScriptedDriver()) as world:
        image, roster, agent = world.image, world.runtime.roster, world.start()
        other = world.runtime.start_agent(DEFAULT_TENANT, image, SessionId("sess_2"))[0]
        # Its image may have been rebuilt between being read and the agent being there.
        assert roster.awake(DEFAULT_TENANT, image.image_id, None) is None
        assert world.start() is agent
        assert roster.awake(DEFAULT_TENANT, image.image_id, None) is agent
        assert roster.awake(DEFAULT_TENANT, image.image_id, agent.session_id) is agent
        assert roster.awake(DEFAULT_TENANT, image.image_id, other.session_id) is None
        assert roster.awake(DEFAULT_TENANT, image.image_id, SessionId("sess_3")) is None
        assert roster.awake(OTHER, image.image_id, None) is None
        roster.evict_agent(agent)
        assert roster.awake(DEFAULT_TENANT, image.image_id, None) is None


async def test_a_sleeper_has_its_names_until_nobody_listens() -> None:
    async with open_world(ScriptedDriver()) as world:
        roster, agent = Roster(), world.start()
        roster.add(agent)
        roster.evict_agent(agent)
        assert len(roster) == 0
        names = roster.find(DEFAULT_TENANT, agent.agent_id)
        assert isinstance(names, Sleeper)
        assert names == roster.get(DEFAULT_TENANT, agent.container_id, agent.session_id)
        assert (names.image_id, names.session_id) == (agent.image_id, agent.session_id)
        assert roster.find(OTHER, agent.agent_id) is None
        roster.forget_sleepers(lambda tenant_id, session_id: (tenant_id, session_id) == (DEFAULT_TENANT, agent.session_id))
        assert roster.find(DEFAULT_TENANT, agent.agent_id) == names
        roster.forget_sleepers(lambda tenant_id, session_id: False)
        assert roster.find(DEFAULT_TENANT, agent.agent_id) is None
        assert roster.of_container(DEFAULT_TENANT, agent.container_id) == ()


async def test_an_agent_that_wakes_takes_its_place_again() -> None:
    async with open_world(ScriptedDriver()) as world:
        roster, agent = Roster(), world.start()
        roster.add(agent)
        roster.evict_agent(agent)
        roster.add(agent)
        assert roster.of_container(DEFAULT_TENANT, agent.container_id) == (agent,)
        assert roster.remove(agent)
        assert roster.find(DEFAULT_TENANT, agent.agent_id) is None


async def test_those_who_rested_longest_come_first_and_who_is_in_use_is_not_among_them() -> None:
    async with open_world(ScriptedDriver()) as world:
        roster = Roster()
        agents = [world.runtime.start_agent(DEFAULT_TENANT, world.image, SessionId(f"s{n}"))[0] for n in range(3)]
        for agent, used_at in zip(agents, (30.0, 10.0, 20.0), strict=True):
            agent.used_at = used_at
            roster.add(agent)
        assert roster.resting() == [agents[1], agents[2], agents[0]]
        with agents[2].in_use():
            assert roster.resting() == [agents[1], agents[0]]
        assert len(roster.resting()) == 3
