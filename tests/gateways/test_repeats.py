"""A request that its client sends several times at once, or again after a cut stream, begins one turn, in every gateway."""

from typing import Any

import anyio
import httpx2
import pytest
from tests.gateways.mcp.fixtures import handshake
from tests.gateways.scene import scene

from agentvm.server.http.gateways import GATEWAYS

TIMES = 5
KEY = {"Idempotency-Key": "once"}


def requests(text: str) -> dict[str, tuple[str, Any, dict[str, str]]]:
    """A message in the words of each gateway: the path, the body and the headers."""
    user = [{"role": "user", "content": text}]
    known = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, *user]
    human = {"id": "h1", "type": "human", "content": text}
    part = {"type": "text", "text": text}
    message = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": text}]}
    run = {"assistant_id": "default", "input": {"messages": [human]}}
    return {
        "openai": ("/v1/chat/completions", {"model": "default", "messages": user, "stream": True}, KEY),
        "openai, with a history": ("/openai/v1/chat/completions", {"model": "default", "messages": known, "stream": True}, KEY),
        "openai, responses": ("/v1/responses", {"model": "default", "input": text, "stream": True}, KEY),
        "mcp": ("/mcp", handshake("tools/call", name="ask_default", arguments={"message": text}), KEY),
        "langgraph": ("/langgraph/threads/t/runs/stream", {**run, "if_not_exists": "create"}, {}),
        "langgraph, without a thread": ("/langgraph/runs/stream", run, KEY),
        "agui": ("/ag-ui/default", {"threadId": "t", "runId": "r", "messages": [{"id": "m", **user[0]}]}, {}),
        "ai_sdk": ("/ai-sdk/default", {"id": "c", "messages": [{"id": "m", "role": "user", "parts": [part]}]}, {}),
        "a2a": (
            "/a2a/default/",
            {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message}},
            {},
        ),
        "plain": ("/v1/messages", {"content": text, "clientMessageId": "m", "stream": True}, {}),
    }


NAMES = list(requests(""))


def test_every_gateway_is_asked() -> None:
    # Anthropic's keeps no answers: a key that is used twice there is refused.
    assert {gateway.name for gateway in GATEWAYS} - {"anthropic"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
async def test_a_request_that_is_sent_at_once_and_after_a_cut_is_one_turn(name: str) -> None:
    async with scene() as served, httpx2.AsyncClient(base_url=served.http, timeout=60) as http:
        path, body, headers = requests("slow")[name]
        answers: list[tuple[int, str]] = []

        async def send() -> None:
            reply = await http.post(path, json=body, headers=headers)
            answers.append((reply.status_code, reply.text))

        with anyio.fail_after(60):
            async with http.stream("POST", path, json=body, headers={**headers, "Accept": "text/event-stream"}) as cut:
                assert cut.status_code == 200
                await anext(cut.aiter_bytes())
            async with anyio.create_task_group() as tasks:
                for _ in range(TIMES):
                    tasks.start_soon(send)
                await http.post("/v1/messages", json={"content": "go"})
        assert [status for status, _ in answers] == [200] * TIMES
        assert all("w2" in text for _, text in answers)
        slow = [prompt for prompt in served.model.prompts if "slow" in repr(prompt.conversation[-1])]
        assert len(slow) == 1
