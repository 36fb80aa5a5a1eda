import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import msgspec
import openai
import pytest
from openai import AsyncOpenAI
from tests.gateways.relays import KEY, RelayScene, relay_scene
from tests.support import answers
from tests.support.provider import Answer, Disconnect, Step, Wait

from agentvm.gateways.openai.chat_body import ChatBody
from agentvm.gateways.openai.chat_relay import most_input

MODEL = "deep/deep-1"
HELLO: Any = [{"role": "user", "content": "Hello!"}]
WHOLE: answers.Json = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "deep-1",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17},
}


@pytest.fixture
async def scene() -> AsyncIterator[RelayScene]:
    async with relay_scene() as scene:
        yield scene


@pytest.fixture
async def client(scene: RelayScene) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(api_key="any", base_url=f"{scene.url}/v1", max_retries=0) as client:
        yield client


async def test_an_answer_in_one_piece_is_the_providers_and_billed(scene: RelayScene, client: AsyncOpenAI) -> None:
    scene.provider.play(Answer(steps=[json.dumps(WHOLE).encode()], content_type="application/json"))
    schema: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}
    answer = await client.chat.completions.create(model=MODEL, messages=HELLO, response_format=schema, user="bob")
    assert answer.choices[0].message.content == "Hi."
    (request,) = scene.provider.requests
    sent = request.json()
    assert (request.path, sent["model"], sent["response_format"]) == ("/v1/chat/completions", "deep-1", schema)
    assert sent["max_tokens"] == 32_000
    assert sent["user"] != "bob"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    bill = await scene.billed()
    assert (bill["calls"], bill["inputTokens"], bill["outputTokens"], bill["estimatedCalls"]) == (1, 12, 5, 0)
    assert bill["price"] == 2 * bill["cost"] > 0


@pytest.mark.parametrize("wants_usage", [True, False])
async def test_a_stream_is_counted_whether_or_not_its_client_asks_for_usage(
    scene: RelayScene, client: AsyncOpenAI, wants_usage: bool
) -> None:
    scene.provider.play(answers.openai_text("Hello ", "there"))
    options: Any = {"stream_options": {"include_usage": True}} if wants_usage else {}
    stream = await client.chat.completions.create(model=MODEL, messages=HELLO, stream=True, max_tokens=9, **options)
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "Hello there"
    assert any(chunk.usage for chunk in chunks) is wants_usage
    sent = scene.provider.requests[0].json()
    assert (sent["stream_options"], sent["max_tokens"]) == ({"include_usage": True}, 9)
    bill = await scene.billed()
    assert (bill["inputTokens"], bill["outputTokens"], bill["estimatedCalls"]) == (10, 5, 0)


async def test_a_stream_that_its_client_cuts_is_billed_once(scene: RelayScene, client: AsyncOpenAI) -> None:
    scene.provider.play(answers.stream([answers.delta({"content": "word " * 60}), Wait(anyio.Event())]))
    stream = await client.chat.completions.create(model=MODEL, messages=HELLO, stream=True)
    await anext(aiter(stream))
    await stream.close()
    bill = await scene.billed()
    assert (bill["calls"], bill["outputTokens"], bill["estimatedCalls"]) == (1, 101, 1)
    assert bill["inputTokens"] > 0


async def test_failures_are_told_in_the_dialect(scene: RelayScene, client: AsyncOpenAI) -> None:
    partial: list[Step] = [answers.delta({"content": "Partial"}), Disconnect()]
    scene.provider.play(answers.failure(400, {"error": {"message": "no", "type": "x"}}), answers.stream(partial))
    with pytest.raises(openai.BadRequestError, match="no"):
        await client.chat.completions.create(model=MODEL, messages=HELLO)
    stream = await client.chat.completions.create(model=MODEL, messages=HELLO, stream=True)
    with pytest.raises(openai.APIError) as broken:
        [chunk async for chunk in stream]
    assert broken.value.code == "provider_unreachable"
    with pytest.raises(openai.NotFoundError) as unknown:
        await client.chat.completions.create(model="anthropic/claude-test", messages=HELLO)
    assert unknown.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError):
        await client.chat.completions.create(model=MODEL, messages=HELLO, n=0)


async def test_models_are_listed_and_agents_still_answer(scene: RelayScene, client: AsyncOpenAI) -> None:
    assert MODEL in [model.id async for model in client.models.list()]
    assert (await client.models.retrieve("deep/other")).id == "deep/other"
    scene.provider.play(answers.anthropic_text("I am an agent."))
    answer = await client.chat.completions.create(model="default", messages=HELLO)
    assert answer.choices[0].message.content == "I am an agent."


async def test_models_themselves_are_refused_unless_the_operator_allows_them(scene: RelayScene, client: AsyncOpenAI) -> None:
    changed = await scene.web.put("/v1/config", json={"changes": {"gateways.openai.models": "off"}})
    assert changed.status_code == 200, changed.text
    with pytest.raises(openai.NotFoundError):
        await client.chat.completions.create(model=MODEL, messages=HELLO)
    assert not scene.provider.requests


def test_pictures_and_documents_count_by_their_kind() -> None:
    parts = [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{'a' * 50_000}"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,bm90IGEgcGRm"}},
        {"type": "text", "text": "x"},
    ]
    raw = msgspec.json.encode({"model": "m", "messages": [{"role": "user", "content": parts}]})
    body = msgspec.json.decode(raw, type=ChatBody)
    assert 1_000_000 + 16_400 < most_input(body, len(raw), "m") < 1_000_000 + 16_400 + 1_000


async def test_a_repeated_request_with_a_key_is_paid_once_and_one_that_cost_nothing_may_come_again(scene: RelayScene) -> None:
    body, headers = {"model": MODEL, "messages": HELLO}, {"Idempotency-Key": "k1"}
    scene.provider.play(
        Answer(steps=[b"{}"], status=400, content_type="application/json"),
        Answer(steps=[json.dumps(WHOLE).encode()], content_type="application/json"),
    )
    path = "/openai/v1/chat/completions"
    replies = [await scene.web.post(path, json=body, headers=headers) for _ in range(3)]
    assert [reply.status_code for reply in replies] == [400, 200, 400]
    assert replies[2].json()["error"]["code"] == "conflict"
    other = await scene.web.post(path, json={**body, "max_tokens": 5}, headers=headers)
    assert other.status_code in (400, 422)
    assert len(scene.provider.requests) == 2
    assert (await scene.billed())["calls"] == 1
