import json
from pathlib import Path
from typing import Any

import httpx2
from tests.gateways.scene import scene
from tests.provision.clients import Clients

CLIENT = (Path(__file__).parent / "client.mjs").read_text()
STEP = ["step-start"]


async def test_the_official_client_has_a_chat_of_each_kind(clients: Clients) -> None:
    async with scene() as served:
        seen: dict[str, Any] = json.loads(await clients.run(CLIENT, served.http))
        prompts = [prompt.conversation for prompt in served.model.prompts]
    hello, thought = ["text", "hello there"], [STEP, ["reasoning", "Hm. Well."], ["text", "Yes."]]
    assert seen["text"] == [["user", hello], ["assistant", STEP, hello], ["user", ["text", "think"]], ["assistant", *thought]]
    assert seen["ids"][1] == seen["ids"][3] == "turn_"
    assert seen["regenerated"] == [4, True]
    assert seen["edited"] == seen["again"] == [["user", ["text", "edited"]], ["assistant", STEP, ["text", "edited"]]]
    assert seen["tool"][1] == [
        "assistant",
        STEP,
        ["text", "Let me check."],
        ["dynamic-tool", "output-available", "14"],
        STEP,
        ["text", "It is done."],
    ]
    assert seen["approval"][1] == ["assistant", STEP, ["dynamic-tool", "approval-requested"]]
    assert seen["approved"][1] == ["assistant", STEP, ["dynamic-tool", "output-available", "2"], STEP, ["text", "So it is."]]
    assert seen["called"] == [["weather", {"city": "Oslo"}]]
    weather = ["tool-weather", "output-available", {"sky": "rain"}]
    assert seen["page"][1] == ["assistant", STEP, ["text", "One moment."], weather, STEP, ["text", "So it is."]]
    assert seen["failed"] == ["error", "the model is overloaded (provider_overloaded)"]
    assert seen["unknown"] == [404, "definition_not_found"]
    assert seen["lost"] == ["error", ["assistant", STEP, ["text", "w0 w1 "]]]
    assert seen["resumed"] == ["ready", [["user", ["text", "slow"]], ["assistant", STEP, ["text", "w0 w1 w2 "]]]]
    assert seen["over"] == ["ready", 204, 204]
    assert seen["stopped"][0] == "ready"
    assert "w0 w1 w2 ".startswith(seen["stopped"][1])
    assert len([conversation for conversation in prompts if "slow" in repr(conversation[-1])]) == 2
    assert any('{"sky":"rain"}' in repr(conversation) or "rain" in repr(conversation) for conversation in prompts)


def said(text: str, message_id: str = "m1") -> dict[str, Any]:
    return {"id": message_id, "role": "user", "parts": [{"type": "text", "text": text}]}


async def test_a_chat_is_stopped_by_name_and_a_repeated_message_is_one_turn() -> None:
    async with scene() as served, httpx2.AsyncClient(base_url=served.http) as http:
        body = {"id": "c", "messages": [said("slow")]}
        async with http.stream("POST", "/ai-sdk/default", json=body) as reply:
            assert reply.headers["x-vercel-ai-ui-message-stream"] == "v1"
            async for line in reply.aiter_lines():
                if "w1" in line:
                    break
        assert (await http.delete("/ai-sdk/default/c/stream")).status_code == 204
        again = await http.post("/ai-sdk/default", json=body)
        assert '"finishReason":"interrupted"' in again.text
        assert again.text.endswith("data: [DONE]\n\n")
        assert (await http.delete("/ai-sdk/default/c/stream")).status_code == 204
        other = await http.post("/ai-sdk/default", json={"id": "c", "messages": [said("another")]})
        assert (other.status_code, other.json()["error"]["code"]) == (422, "unprocessable")
        assert len(served.model.prompts) == 1


async def test_an_answer_is_replaced_once_with_the_tools_of_the_page() -> None:
    tools = [{"name": "weather", "inputSchema": {"type": "object"}}]
    async with scene() as served, httpx2.AsyncClient(base_url=served.http) as http:
        chat = {"id": "c", "messages": [said("hello")], "tools": tools}
        first = (await http.post("/ai-sdk/default", json=chat)).headers["x-avm-turn"]
        replace = {**chat, "trigger": "regenerate-message", "messageId": first}
        replies = [await http.post("/ai-sdk/default", json=replace) for _ in range(2)]
        (second,) = {reply.headers["x-avm-turn"] for reply in replies}
        # The question is named: whoever asks so again wants another answer.
        again = [await http.post("/ai-sdk/default", json={**replace, "messageId": "m1"}) for _ in range(2)]
        assert len({first, second, *(reply.headers["x-avm-turn"] for reply in again)}) == 4
        edited = []
        for text in ("changed", "changed", "hello", "changed"):
            edit = {**chat, "messages": [said(text)], "messageId": "m1"}
            edited.append((await http.post("/ai-sdk/default", json=edit)).headers["x-avm-turn"])
        assert (edited[0] == edited[1], len(set(edited))) == (True, 3)
        assert [prompt.tools[-1].name for prompt in served.model.prompts] == ["weather"] * 7


async def test_a_wrong_request_is_refused_in_the_words_of_the_dialect() -> None:
    async with scene() as served, httpx2.AsyncClient(base_url=served.http) as http:
        part = {"type": "file", "mediaType": "image/png", "url": "http://10.0.0.1/x.png"}
        answered = {
            "role": "assistant",
            "parts": [{"type": "tool-f", "toolCallId": "c", "state": "output-available", "output": 1}],
        }
        bodies: list[tuple[dict[str, Any], int, str]] = [
            ({"messages": [said("x")]}, 400, "id"),
            ({"id": "c", "messages": []}, 400, "must end with"),
            ({"id": "c", "messages": [{"role": "assistant", "parts": []}]}, 400, "no result of a tool"),
            ({"id": "c", "messages": [answered]}, 400, "no longer waited for"),
            ({"id": "c", "messages": [{"role": "user", "parts": [part]}]}, 400, "parts[0].url"),
            ({"id": "c", "messages": [{"role": "user", "parts": [{"type": "data-x"}]}]}, 422, "parts[0]"),
            ({"id": "c", "messages": [said("x")], "tools": [{"name": "no name"}]}, 400, "tools"),
            (
                {"id": "c", "messages": [{"role": "assistant", "parts": []}], "trigger": "regenerate-message"},
                400,
                "to answer again",
            ),
        ]
        for body, status, text in bodies:
            reply = await http.post("/ai-sdk/default", json=body)
            assert reply.status_code == status, (body, reply.text)
            assert text in reply.json()["error"]["message"]
        assert served.model.prompts == []
