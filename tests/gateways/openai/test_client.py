import json
from pathlib import Path
from typing import Any

from tests.gateways.scene import scene
from tests.provision.clients import Clients

CLIENT = (Path(__file__).parent / "client.mjs").read_text()


async def test_the_official_client_in_javascript_runs_a_turn_of_each_kind(clients: Clients) -> None:
    async with scene() as served:
        seen: dict[str, Any] = json.loads(await clients.run(CLIENT, served.http))
    assert "default" in seen["models"]
    assert seen["text"] == "".join(seen["chunks"]) == "hello there"
    assert seen["tool"] == "Let me check.It is done."
    assert seen["page"] == ["tool_calls", '{"city":"Oslo"}', "So it is."]
    assert seen["failed"] == ["APIError", None, "provider_overloaded"]
    assert seen["unknown"] == ["NotFoundError", 404, "model_not_found"]
    assert seen["response"][0] == "completed"
    assert seen["response"][2:] == [["message", "mcp_call", "message"], True]
    assert seen["next"] == ["hello", True]
    assert seen["resumed"][0] in "w0 w1 w2 "
    assert seen["resumed"][1] == "w0 w1 w2 "
    assert seen["left"] == "interrupted"
    assert (seen["repeated"], seen["repeatedTurns"]) == ("w0 w1 w2 ", 1)
    assert seen["failedResponse"] == ["failed", "provider_overloaded"]
    assert seen["failedStream"] == "failed"
    assert seen["cancelled"] == [True, "cancelled", "interrupted"]
