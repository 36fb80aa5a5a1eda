import pytest
from tests.runtime.fixtures import open_world

from agentvm.drivers.scripted import ScriptedDriver
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, ImageId, SessionId
from agentvm.runtime.container import Container

pytestmark = pytest.mark.anyio


async def test_a_container_holds_one_agent_per_session() -> None:
    async with open_world(ScriptedDriver()) as world:
        runtime, image = world.runtime, world.image
        first = runtime.start_agent(DEFAULT_TENANT, image, image.session_id)[0]
        second = runtime.start_agent(DEFAULT_TENANT, image, SessionId("sess_2"))[0]
        container = Container(DEFAULT_TENANT, ContainerId("c1"))
        container.add(first)
        container.add(second)
        container.add(first)
        assert list(container) == [first, second]
        assert container.get(image.session_id) is first
        assert container.of_image(image.image_id) == (first, second)
        assert container.of_image(ImageId("other")) == ()
        # Iterating while agents are removed is what stopping them all does.
        for agent in container:
            container.remove(agent)
            container.remove(agent)
        assert len(container) == 0
        assert container.get(image.session_id) is None
