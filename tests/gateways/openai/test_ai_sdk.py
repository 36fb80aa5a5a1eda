"""The provider of the AI SDK for OpenAI: another client of this gateway that many people have."""

import json
from pathlib import Path

from tests.gateways.scene import scene
from tests.provision.clients import Clients

CLIENT = (Path(__file__).parent / "ai_sdk.mjs").read_text()


async def test_the_provider_of_the_ai_sdk_has_conversations_of_each_kind(clients: Clients) -> None:
    async with scene() as served:
        told = json.loads(await clients.run(CLIENT, served.http))
    for seen in (told["responses"], told["chat"]):
        assert seen["text"] == ["one", "two", "three"]
        assert seen["own"] == ["Let me check.It is done.", "and now"]
        assert seen["think"] == ["Yes.", "and now"]
        assert seen["tool"] == ["So it is.", 2]
        assert seen["left"] == "w0 "
        assert "overloaded" in seen["failed"]
        assert seen["again"] == "w0 w1 w2 "
