"""The official JavaScript clients against a real server."""

import json
from pathlib import Path

import anyio
from tests.gateways.langgraph.fixtures import ASKING, interrupted_by
from tests.provision.clients import Clients
from tests.support.relay import relaying
from tests.support.serving import serving

PROGRAM = Path(__file__).with_name("clients.mjs")
CHAT_UI = Path(__file__).with_name("chat_ui.mjs")


async def test_the_sdk_and_use_stream_talk_to_an_agent(clients: Clients) -> None:
    lost = (anyio.Event(), anyio.Event(), anyio.Event(), anyio.Event())
    script, cuts = interrupted_by(*lost), [(b'"one ', event) for event in lost]
    async with serving(script, tools=ASKING) as served, relaying(served.port, *cuts) as relay:
        addresses = (f"http://127.0.0.1:{port}/langgraph" for port in (served.port, relay.port))
        said = json.loads(await clients.run(PROGRAM.read_text(), *addresses))
        assert (
            said["classic"]
            == said["earlier"]
            == {
                "text": [["metadata", "values", "messages"], ["hello", "You said hello"]],
                "tool": [["ai", ""], ["tool", "2"], ["ai", "It is 2"]],
                "asked": ["current_time"],
                "resumed": "It is 2",
                "failed": "provider_overloaded",
                "cut": ["slow", "one two"],
                "stopped": "interrupted",
                "state": 11,
                "searched": 1,
                "kept": [{"tea": True}, [True], [["users", "bob"]], None],
            }
        )
        hook = said["hook"]
        assert hook["text"] == ["hello", "You said hello"]
        assert hook["tool"] == ["ai", "tool", "ai"]
        assert hook["calls"] == [["calculator", "finished"]]
        assert hook["waits"] == ["current_time"]
        assert hook["resumed"][-1] == "It is 2"
        assert hook["placed"] == [[{"name": "Oslo"}], ["place", "", "59 N", "It is 2"]]
        assert "busy" in hook["failed"]
        assert hook["cut"] == ["slow", "one two"]
        socket = said["socket"]
        assert socket["text"] == ["hello", "You said hello"]
        assert socket["tool"] == ["2", "It is 2"]
        assert socket["resumed"] == 10
        assert "busy" in socket["failed"]
        assert socket["cut"] == ["slow", "one two"]
        assert hook["stopped"] == socket["stopped"] == [["wait", "one "], ["interrupted"]]
        assert relay.cuts == []


async def test_the_hook_of_agent_chat_ui_talks_to_an_agent(clients: Clients) -> None:
    lost = (anyio.Event(), anyio.Event())
    cuts = [(b'"one ', event) for event in lost]
    async with serving(interrupted_by(*lost), tools=ASKING) as served, relaying(served.port, *cuts) as relay:
        addresses = (f"http://127.0.0.1:{port}/langgraph" for port in (served.port, relay.port))
        said = json.loads(await clients.run(CHAT_UI.read_text(), *addresses))
        assert relay.cuts == []
    assert said["now"] == said["earlier"]
    assert said["now"] == {
        "text": ["hello", "You said hello"],
        "edited": ["another", "You said another"],
        "tool": ["", "2", "It is 2"],
        "asked": ["current_time"],
        "resumed": 10,
        "ended": "tool",
        "failed": "busy",
        "stopped": "interrupted",
        "cut": ["slow", "one two"],
    }
