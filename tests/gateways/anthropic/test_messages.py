import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anthropic
import anyio
import pytest
from anthropic import AsyncAnthropic
from tests.gateways.relays import KEY, RelayScene, relay_scene
from tests.provision.clients import Clients
from tests.support import answers
from tests.support.provider import Answer, Disconnect, Wait

CLIENT = (Path(__file__).parent / "client.mjs").read_text()
HELLO: Any = [{"role": "user", "content": "Hello!"}]
USAGE: answers.Json = {"input_tokens": 12, "output_tokens": 5, "cache_read_input_tokens": 3}
WHOLE: answers.Json = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-test",
    "content": [{"type": "text", "text": "Hi."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": USAGE,
}


def whole(body: answers.Json = WHOLE, **about: Any) -> Answer:
    return Answer(steps=[json.dumps(body).encode()], content_type="application/json", **about)


@pytest.fixture
async def scene() -> AsyncIterator[RelayScene]:
    async with relay_scene() as scene:
        yield scene


@pytest.fixture
async def client(scene: RelayScene) -> AsyncIterator[AsyncAnthropic]:
    async with AsyncAnthropic(api_key="any", base_url=f"{scene.url}/anthropic", max_retries=0) as client:
        yield client


async def test_an_answer_in_one_piece_is_the_providers_and_billed(scene: RelayScene, client: AsyncAnthropic) -> None:
    scene.provider.play(whole(headers={"request-id": "req_of_provider"}))
    raw = await client.messages.with_raw_response.create(
        model="claude-test",
        max_tokens=100,
        messages=HELLO,
        metadata={"user_id": "somebody's own name"},
        extra_body={"context_management": {"edits": []}},
        extra_headers={"anthropic-beta": "some-beta-1"},
    )
    message = await raw.parse()
    assert message.content[0].text == "Hi."  # type: ignore[union-attr]
    assert raw.headers["request-id"] == "req_of_provider"
    (request,) = scene.provider.requests
    sent = request.json()
    assert (request.path, sent["model"], sent["context_management"]) == ("/v1/messages", "claude-test", {"edits": []})
    assert sent["messages"] == HELLO
    assert "somebody" not in str(sent["metadata"])
    assert request.headers["anthropic-beta"] == "some-beta-1"
    assert request.headers["anthropic-version"]
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert "any" not in request.headers.values()
    bill = await scene.billed()
    assert (bill["calls"], bill["inputTokens"], bill["outputTokens"], bill["cacheReadTokens"]) == (1, 12, 5, 3)
    assert bill["price"] == 2 * bill["cost"] > 0
    assert bill["estimatedCalls"] == 0


async def test_a_stream_comes_as_the_provider_sends_it(scene: RelayScene, client: AsyncAnthropic) -> None:
    tools: Any = [{"name": "weather", "input_schema": {"type": "object"}}]
    scene.provider.play(answers.anthropic_tools(("call_1", "weather", ['{"city":', '"Oslo"}']), text="One moment."))
    async with client.messages.stream(model="claude-test", max_tokens=100, messages=HELLO, tools=tools) as stream:
        message = await stream.get_final_message()
    assert [block.type for block in message.content] == ["text", "tool_use"]
    assert message.content[1].input == {"city": "Oslo"}  # type: ignore[union-attr]
    assert message.stop_reason == "tool_use"
    bill = await scene.billed()
    assert (bill["inputTokens"], bill["estimatedCalls"]) == (10, 0)
    assert bill["outputTokens"] == message.usage.output_tokens


async def test_a_stream_that_its_client_cuts_is_billed_once_for_what_was_said(
    scene: RelayScene, client: AsyncAnthropic
) -> None:
    said = answers.text_block(0, "word " * 60)[:2]
    scene.provider.play(answers.stream([answers.message_start(), *said, Wait(anyio.Event())]))
    async with client.messages.stream(model="claude-test", max_tokens=1000, messages=HELLO) as stream:
        async for _ in stream.text_stream:
            break
    with anyio.fail_after(60):
        await scene.provider.requests[0].abandoned.wait()
    bill = await scene.billed()
    assert (bill["calls"], bill["inputTokens"], bill["estimatedCalls"]) == (1, 10, 1)
    assert bill["outputTokens"] == 101
    # Nothing of an answer is kept: whoever comes back asks again.
    scene.provider.play(whole())
    assert (await client.messages.create(model="claude-test", max_tokens=100, messages=HELLO)).content[0].text == "Hi."  # type: ignore[union-attr]
    assert (await scene.billed(2))["calls"] == 2


async def test_an_answer_in_one_piece_is_billed_exactly_although_its_client_has_left(
    scene: RelayScene, client: AsyncAnthropic
) -> None:
    gate = anyio.Event()
    scene.provider.play(Answer(steps=[Wait(gate), json.dumps(WHOLE).encode()], content_type="application/json"))
    async with anyio.create_task_group() as tasks:

        async def ask() -> None:
            await client.messages.create(model="claude-test", max_tokens=100, messages=HELLO)

        tasks.start_soon(ask)
        with anyio.fail_after(60):
            await scene.provider.wait_request()
        tasks.cancel_scope.cancel()
    gate.set()
    bill = await scene.billed()
    assert (bill["calls"], bill["inputTokens"], bill["outputTokens"], bill["estimatedCalls"]) == (1, 12, 5, 0)


async def test_a_refusal_is_the_providers_own_and_costs_nothing(scene: RelayScene, client: AsyncAnthropic) -> None:
    about: answers.Json = {"type": "error", "error": {"type": "invalid_request_error", "message": f"no: {KEY}"}}
    scene.provider.play(answers.failure(400, about), answers.failure(429, about, headers={"retry-after": "7"}), whole())
    with pytest.raises(anthropic.BadRequestError, match="no: \\*\\*\\*"):
        await client.messages.create(model="claude-test", max_tokens=100, messages=HELLO)
    with pytest.raises(anthropic.RateLimitError) as limited:
        async with client.messages.stream(model="claude-test", max_tokens=100, messages=HELLO):
            pass
    assert limited.value.response.headers["retry-after"] == "7"
    assert (await scene.billed(0))["calls"] == 0


async def test_a_refused_account_is_the_operators_business(scene: RelayScene, client: AsyncAnthropic) -> None:
    about: answers.Json = {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}}
    scene.provider.play(answers.failure(401, about))
    with pytest.raises(anthropic.InternalServerError) as refused:
        await client.messages.create(model="claude-test", max_tokens=100, messages=HELLO)
    assert refused.value.status_code == 502
    assert refused.value.body["error"]["code"] == "provider_auth_failed"  # type: ignore[index]


@pytest.mark.parametrize(
    ("end", "kind"),
    [
        (answers.event("error", {"error": {"type": "overloaded_error", "message": "busy"}}), "overloaded_error"),
        (Disconnect(), "api_error"),
    ],
)
async def test_a_stream_that_breaks_off_ends_with_an_error_and_is_billed(
    scene: RelayScene, client: AsyncAnthropic, end: bytes | Disconnect, kind: str
) -> None:
    scene.provider.play(answers.stream([answers.message_start(), *answers.text_block(0, "Partial")[:2], end]))
    with pytest.raises(anthropic.APIStatusError) as failed:
        async with client.messages.stream(model="claude-test", max_tokens=100, messages=HELLO) as stream:
            await stream.get_final_message()
    assert failed.value.body["error"]["type"] == kind  # type: ignore[index]
    bill = await scene.billed()
    assert (bill["calls"], bill["inputTokens"]) == (1, 10)
    assert bill["outputTokens"] >= 1


async def test_what_costs_nothing_fails_in_the_dialect_too(scene: RelayScene, client: AsyncAnthropic) -> None:
    scene.provider.play(Answer(steps=[Disconnect()], content_type="application/json"), answers.failure(404))
    with pytest.raises(anthropic.InternalServerError):
        await client.messages.count_tokens(model="claude-test", messages=HELLO)
    with pytest.raises(anthropic.NotFoundError):
        await client.models.retrieve("claude-none")


async def test_tokens_are_counted_and_models_listed_for_nothing(scene: RelayScene, client: AsyncAnthropic) -> None:
    model: answers.Json = {"type": "model", "id": "claude-test", "display_name": "Claude", "created_at": "2026-01-01T00:00:00Z"}
    page: answers.Json = {"data": [model], "has_more": False, "first_id": "claude-test", "last_id": "claude-test"}
    scene.provider.play(whole({"input_tokens": 42}), whole(page), whole(model))
    counted = await client.messages.count_tokens(model="anthropic/claude-test", messages=HELLO)
    assert counted.input_tokens == 42
    assert [one.id async for one in client.models.list(limit=5)] == ["claude-test"]
    assert (await client.models.retrieve("claude-test")).id == "claude-test"
    paths = [request.path for request in scene.provider.requests]
    assert paths == ["/v1/messages/count_tokens", "/v1/models?limit=5", "/v1/models/claude-test"]
    assert scene.provider.requests[0].json()["model"] == "claude-test"
    assert (await scene.billed(0))["calls"] == 0


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"model": "claude-test", "messages": HELLO}, 400),
        ({"model": "claude-test", "messages": HELLO, "max_tokens": 0}, 400),
        ({"model": "deep/deep-1", "messages": HELLO, "max_tokens": 5}, 404),
        ({"model": "m" * 300, "messages": HELLO, "max_tokens": 5}, 400),
        ({"messages": HELLO, "max_tokens": 5}, 400),
        ([], 400),
    ],
)
async def test_bad_input_is_refused_in_the_dialect_and_reaches_no_provider(scene: RelayScene, body: Any, status: int) -> None:
    response = await scene.web.post("/anthropic/v1/messages", json=body)
    assert response.status_code == status
    assert response.json()["type"] == "error"
    assert response.json()["error"]["type"] in ("invalid_request_error", "not_found_error")
    assert not scene.provider.requests


@pytest.mark.parametrize(
    "model", ["..%2f..%2fadmin", "..", "a%0d%0ab", "a%3Fb%23c", "anthropic%2f..%2f..%2fadmin", "%2e%2e", "é"]
)
async def test_the_name_of_a_model_never_leads_elsewhere_at_the_provider(scene: RelayScene, model: str) -> None:
    scene.provider.play(whole({}))
    assert (await scene.web.get(f"/anthropic/v1/models/{model}")).status_code in (404, 405)
    assert not scene.provider.requests


async def test_other_paths_are_refused_in_the_dialect(scene: RelayScene) -> None:
    response = await scene.web.post("/anthropic/v1/messages/batches", json={})
    assert (response.status_code, response.json()["error"]["type"]) == (404, "not_found_error")


async def test_the_official_client_in_javascript_runs_a_request_of_each_kind(scene: RelayScene, clients: Clients) -> None:
    refused: answers.Json = {"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}
    tool = answers.anthropic_tools(("call_1", "weather", ['{"city":', '"Oslo"}']), text="One moment.")
    cut = answers.stream([answers.message_start(), *answers.text_block(0, "word " * 60)[:2], Wait(anyio.Event())])
    scene.provider.play(answers.anthropic_text("Hello ", "there"), whole(), answers.failure(400, refused), tool, cut, whole())
    seen = json.loads(await clients.run(CLIENT, scene.url))
    assert seen == {
        "streamed": "Hello there",
        "whole": "Hi.",
        "failed": ["BadRequestError", 400],
        "called": ["tool_use", "weather", {"city": "Oslo"}],
        "left": "APIUserAbortError",
        "again": "Hi.",
    }
    with anyio.fail_after(60):
        await scene.provider.requests[4].abandoned.wait()
    # A refusal costs nothing, and half an answer once.
    assert (await scene.billed(5))["calls"] == 5
