import json
from pathlib import Path
from typing import Any

import httpx2
from tests.gateways.scene import scene
from tests.provision.clients import Clients

CLIENT = (Path(__file__).parent / "client.mjs").read_text()
SAID = ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"]
CALLED = ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_ARGS", "TOOL_CALL_END"]


async def test_the_official_client_runs_a_turn_of_each_kind(clients: Clients) -> None:
    async with scene() as served:
        seen: dict[str, Any] = json.loads(await clients.run(CLIENT, served.http))
        prompts = [prompt.conversation for prompt in served.model.prompts]
    assert seen["warnings"] == []
    assert seen["text"] == {"kinds": ["RUN_STARTED", *SAID[:2], *SAID[1:], "RUN_FINISHED"], "failure": None}
    reasoning = ["REASONING_START", "REASONING_MESSAGE_START", *["REASONING_MESSAGE_CONTENT"] * 2]
    thought = [*reasoning, "REASONING_MESSAGE_END", "REASONING_END"]
    assert seen["thought"]["kinds"] == ["RUN_STARTED", *thought, *SAID, "RUN_FINISHED"]
    assert [message[:2] for message in seen["conversation"]] == [
        ["user", "hello there"],
        ["assistant", "hello there"],
        ["user", "think"],
        ["reasoning", "Hm. Well."],
        ["assistant", "Yes."],
    ]
    tool = ["RUN_STARTED", *SAID, *CALLED, "TOOL_CALL_RESULT", *SAID[:2], *SAID[1:], "RUN_FINISHED"]
    assert seen["tool"] == {"kinds": tool, "failure": None}
    assert seen["toolMessages"] == [
        ["user", "tool"],
        ["assistant", "Let me check.", '{"expression":"2+3*4"}'],
        ["tool", "14"],
        ["assistant", "It is done."],
    ]
    assert seen["approval"]["kinds"] == ["RUN_STARTED", *CALLED, "RUN_FINISHED"]
    assert seen["interrupt"] == {"reason": "approval", "toolCallId": "call_ask", "required": ["approved"]}
    assert seen["approved"]["kinds"] == ["RUN_STARTED", "TOOL_CALL_RESULT", *SAID, "RUN_FINISHED"]
    assert [message[:2] for message in seen["approvedMessages"]][-2:] == [["tool", "2"], ["assistant", "So it is."]]
    assert seen["page"]["kinds"] == ["RUN_STARTED", *SAID, *CALLED, "RUN_FINISHED"]
    assert seen["answered"]["kinds"] == ["RUN_STARTED", *SAID, "RUN_FINISHED"]
    assert [message[0] for message in seen["pageMessages"]] == ["user", "assistant", "tool", "assistant"]
    assert seen["failed"]["failure"] == {"code": "provider_overloaded", "message": "the model is overloaded"}
    assert seen["unknown"]["failure"]["status"] == 404
    assert seen["unknown"]["failure"]["payload"]["code"] == "definition_not_found"
    assert seen["resumed"]["kinds"][0] == "RUN_STARTED"
    assert seen["resumedMessages"] == [["user", "slow"], ["assistant", "w0 w1 w2 "]]
    assert "cancelled" in repr(seen["stopped"][0])
    assert "w0 w1 w2 ".startswith(seen["stopped"][1])
    slow = [conversation for conversation in prompts if "slow" in repr(conversation[-1])]
    assert len(slow) == 2


async def test_a_wrong_run_is_refused_in_the_words_of_the_dialect() -> None:
    async with scene() as served, httpx2.AsyncClient(base_url=served.http) as http:
        user = [{"id": "m", "role": "user", "content": "hello"}]
        picture = {"type": "image", "source": {"type": "url", "value": "file:///etc/passwd"}}
        bodies: list[tuple[dict[str, Any], int, str]] = [
            ({"runId": "r", "messages": user}, 400, "threadId"),
            ({"threadId": "t", "runId": "r", "messages": []}, 400, "must end with a message of the user"),
            ({"threadId": "t", "runId": "r", "messages": [{"role": "user", "content": 5}]}, 400, "a text or a list"),
            ({"threadId": "t", "runId": "r", "messages": [{"role": "user", "content": [picture]}]}, 400, "content[0].source"),
            (
                {"threadId": "t", "runId": "r", "messages": [{"role": "tool", "toolCallId": "c", "content": "x"}]},
                400,
                "no longer",
            ),
            ({"threadId": "t", "runId": "r", "resume": [{"interruptId": "w"}]}, 400, "no longer"),
            ({"threadId": "t", "runId": "r", "messages": user, "tools": [{"name": "no name"}]}, 400, "tools"),
            ({"threadId": "t" * 513, "runId": "r", "messages": user}, 400, "threadId"),
        ]
        for body, status, text in bodies:
            reply = await http.post("/ag-ui/default", json=body)
            assert (reply.status_code, reply.json()["type"]) == (status, "RUN_ERROR"), body
            assert text in reply.json()["message"]
        assert served.model.prompts == []
        said = {"threadId": "t", "runId": "r", "messages": user}
        assert (await http.post("/ag-ui/default", json=said)).text.count("RUN_FINISHED") == 1
        other = {**said, "messages": [{"id": "m", "role": "user", "content": "another"}]}
        refused = await http.post("/ag-ui/default", json=other)
        assert (refused.status_code, refused.json()["code"]) == (422, "unprocessable")
        assert len(served.model.prompts) == 1
