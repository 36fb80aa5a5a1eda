from typing import Any

import pytest
from tests.server.http.fixtures import open_world

from agentvm.version import VERSION


async def test_a_server_alone_is_the_only_node(request: pytest.FixtureRequest) -> None:
    engine = "sqlite" if request.config.getoption("--engine") == "sqlite" else "postgresql"
    async with open_world() as world:
        told: Any = (await world.ask("GET", "/v1/cluster/nodes")).body
        (node,) = told["nodes"]
        assert (told["isShared"], told["database"]["engine"]) == (False, engine)
        assert (node["nodeId"], node["version"], node["state"], node["runs"], node["sockets"]) == (0, VERSION, "up", 0, 0)
        assert node["isAsked"]
        assert node["isLeading"]


async def test_nodes_are_listed_for_the_operator_alone() -> None:
    async with open_world() as world:
        assert (await world.ask("GET", "/v1/cluster/nodes", key=world.acme.admin)).status == 403
        assert (await world.ask("GET", "/v1/cluster/nodes", key=world.acme.user)).status == 403


async def test_a_server_alone_is_stopped_otherwise() -> None:
    async with open_world() as world:
        refused = await world.ask("POST", "/v1/cluster/nodes/0/drain", {})
        assert (refused.status, refused.body["error"]["code"]) == (501, "not_available")
        assert (await world.ask("POST", "/v1/cluster/nodes/0/drain", {}, key=world.acme.admin)).status == 403
