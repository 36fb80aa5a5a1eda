import openai
import pytest
from tests.gateways.openai.fixtures import talking

from agentvm import Definition


async def test_the_models_are_the_agents() -> None:
    async with talking(definitions=[Definition(name="poet", description="Writes")]) as (client, _):
        models = [model.id async for model in await client.models.list()]
        assert models[:2] == ["default", "poet"]
        assert (await client.models.retrieve("poet")).id == "poet"
        with pytest.raises(openai.NotFoundError) as failure:
            await client.models.retrieve("nobody")
        assert (failure.value.code, failure.value.param) == ("model_not_found", "model")
