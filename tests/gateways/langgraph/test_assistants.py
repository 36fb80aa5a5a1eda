import pytest
from langgraph_sdk.errors import NotFoundError
from tests.gateways.langgraph.fixtures import talking

from agentvm import Definition


async def test_agents_are_assistants() -> None:
    definitions = [Definition(name="default"), Definition(name="poet", description="Writes")]
    async with talking(definitions=definitions) as (client, _):
        assert await client.http.get("/ok") == {"ok": True}
        assert (await client.http.get("/info"))["flags"]["assistants"]
        listed = await client.assistants.search()
        assert await client.assistants.count() == len(listed)
        poet = next(item for item in listed if item["assistant_id"] == "poet")
        assert (poet["graph_id"], poet["description"]) == ("poet", "Writes")
        assert await client.assistants.get("poet") == poet
        assert await client.assistants.search(graph_id="poet") == [poet]
        first = await client.assistants.search(limit=1, response_format="object")
        assert first["next"] == "1"
        assert "messages" in (await client.assistants.get_schemas("poet"))["input_schema"]["properties"]
        assert [node["id"] for node in (await client.assistants.get_graph("poet"))["nodes"]][1:3] == ["agent", "tools"]
        assert await client.assistants.get_subgraphs("poet") == {}
        with pytest.raises(NotFoundError):
            await client.assistants.get("nobody")
