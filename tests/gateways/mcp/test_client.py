import json
from pathlib import Path
from typing import Any

from tests.gateways.scene import scene
from tests.provision.clients import Clients

CLIENT = (Path(__file__).parent / "client.mjs").read_text()


async def test_the_official_client_in_javascript_runs_a_turn_of_each_kind_in_both_eras(clients: Clients) -> None:
    async with scene() as served:
        eras: dict[str, dict[str, Any]] = json.loads(await clients.run(CLIENT, served.http))
    assert sorted(eras) == ["auto", "legacy", "sdk"]
    for seen in eras.values():
        assert "ask_default" in seen["tools"]
        assert seen["text"] == ["hello there", "completed"]
        assert seen["tool"] == ["Let me check.\n\nIt is done.", True]
        assert seen["waiting"] == ["waiting", 1]
        assert seen["failed"] == [True, "the model is overloaded"]
        assert seen["unknown"] == -32602
        assert (seen["left"], seen["outcome"]) == ("left", "interrupted")
        assert seen["again"] == ["hello", True]
        assert seen["repeated"] is True
        assert seen["resumed"] == ["w0 w1 w2 ", "completed"]
