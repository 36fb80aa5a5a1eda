"""Clients of gateways reach any node: what they send twice is one turn, and each node has the whole answer."""

from typing import Any

import httpx2
import pytest
from tests.cluster.conftest import Gate

from agentvm.server.serving import Listener
from agentvm.vm import AgentVM

CHAT = {"model": "default", "messages": [{"role": "user", "content": "hello"}]}
SAID = "hello:0 hello:1 hello:2 hello:3 hello:4 "
PART = {"type": "text", "text": "hold it"}


def user(content: str) -> dict[str, Any]:
    return {"id": "m1", "role": "user", "content": content}


SENT: dict[str, tuple[str, dict[str, Any], dict[str, str]]] = {
    "chat": ("/v1/chat/completions", CHAT, {"Idempotency-Key": "k1"}),
    "response": ("/v1/responses", {"model": "default", "input": "hello"}, {"Idempotency-Key": "k2"}),
    "task": (
        "/a2a/default/",
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "SendMessage",
            "params": {"message": {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "hello"}]}},
        },
        {},
    ),
    "run": ("/ag-ui/default", {"threadId": "t", "runId": "r", "messages": [user("hello")]}, {}),
}
"""Requests that may be sent again, by what they are about."""


@pytest.fixture
async def urls(nodes: tuple[AgentVM, AgentVM]) -> Any:
    first, second = map(Listener, nodes)
    async with first.listen("127.0.0.1", 0) as here, second.listen("127.0.0.1", 0) as there:
        yield [f"http://127.0.0.1:{port}" for port in (here, there)]


async def test_a_request_that_is_repeated_on_the_other_node_is_one_turn_with_the_whole_answer(urls: list[str]) -> None:
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as http:
        for number, (path, body, headers) in enumerate(SENT.values(), 1):
            for url in urls * 2:
                reply = await http.post(url + path, json=body, headers=headers)
                assert (reply.status_code, "hello:4" in reply.text) == (200, True), path
            listed = (await http.get(f"{urls[0]}/v1/turns")).json()["items"]
            assert len(listed) == number, path
        assert len({turn["imageId"] for turn in listed}) == 1


async def test_a_conversation_goes_on_is_followed_and_stopped_on_the_other_node(urls: list[str], gate: Gate) -> None:
    here, there = urls
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as http:
        said: list[dict[str, str]] = []
        sessions = set()
        for number in range(3):
            said.append({"role": "user", "content": "hello"})
            reply = await http.post(f"{urls[number % 2]}/v1/chat/completions", json={"model": "default", "messages": said})
            sessions.add(reply.headers["x-avm-session"])
            said.append(reply.json()["choices"][0]["message"])
            assert said[-1]["content"] == SAID
        assert len(sessions) == 1
        chat = {"id": "c", "messages": [{"id": "m1", "role": "user", "parts": [PART]}]}
        async with http.stream("POST", f"{here}/ai-sdk/default", json=chat) as first:
            await anext(line async for line in first.aiter_lines() if "text-delta" in line)
            async with http.stream("GET", f"{there}/ai-sdk/default/c/stream") as second:
                gate.opened.set()
                rest = "".join([line async for line in second.aiter_lines()])
        assert "hold it:4" in rest
        assert rest.endswith("[DONE]")


async def test_a_turn_is_stopped_on_the_other_node(urls: list[str]) -> None:
    here, there = urls
    body = {"threadId": "held", "runId": "r", "messages": [user("hold it")]}
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as http:
        async with http.stream("POST", f"{here}/ag-ui/default", json=body) as stream:
            lines = stream.aiter_lines()
            while "CONTENT" not in await anext(lines):
                pass
            assert (await http.delete(f"{there}/ag-ui/default?threadId=held")).status_code == 204
            rest = "".join([line async for line in lines])
        assert '"outcome":{"type":"cancelled"}' in rest
