import msgspec
import pytest
from tests.runtime.fixtures import open_world
from tests.runtime.test_sub_agents import WORKER, team

from agentvm.drivers.scripted import ScriptedDriver
from agentvm.errors import NotFound
from agentvm.model.policy import PolicyRule
from agentvm.runtime.acting_agent import act_as, acting_image, agents_of

pytestmark = pytest.mark.anyio


async def test_an_agent_of_an_image_acts_with_its_own_definition_and_the_rules_of_its_callers() -> None:
    rules = (PolicyRule(tool="x", do="deny"),)
    async with open_world(ScriptedDriver(), definition=team(policy=rules)) as world:
        image = msgspec.structs.replace(world.image, definition=msgspec.structs.replace(world.image.definition, model="a/b"))
        acting = act_as(image, WORKER, ("",))
        assert (acting.definition.name, acting.definition.model) == ("worker", "a/b")
        assert acting.definition.rendered is not None
        assert acting.definition.rendered.callers == (rules,)
        assert agents_of(acting) == agents_of(image)
        assert acting.digest != image.digest


async def test_an_upgraded_agent_is_found_by_its_name_and_one_that_was_taken_out_is_not() -> None:
    async with open_world(ScriptedDriver(), definition=team()) as world:
        assert act_as(world.image, "resource://agents/worker@0.9.0").definition.name == "worker"
        with pytest.raises(NotFound):
            act_as(world.image, "resource://agents/stranger@1.0.0")


async def test_an_image_without_agents_acts_by_itself() -> None:
    async with open_world(ScriptedDriver()) as world:
        assert await acting_image(world.start(), None) == (world.image, "")
