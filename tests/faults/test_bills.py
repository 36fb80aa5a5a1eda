"""F17, the shapes: what each kind of answer of both providers costs, to the token, through a real server and real HTTP."""

from dataclasses import dataclass

import anyio
import pytest
from tests.support import answers as play
from tests.support.provider import Answer, Disconnect, Stall, open_provider
from tests.support.wire import Client19, client

from agentvm import ServerConfig, start_server
from agentvm.config import MEMORY, LlmSettings, SystemSettings
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.ledger import LedgerEntry
from agentvm.model.secret import Secret
from agentvm.model.usage import Usage
from agentvm.server.local import RunningServer

LOOK = ("call_1", "calculator", ['{"expression"', ': "6*7"}'])


@dataclass(frozen=True, kw_only=True)
class Case:
    """What the provider answers, one after the other, and what each call must be billed for."""

    answers: list[Answer]
    billed: list[Usage]
    outcome: str = "completed"
    stop: bool = False
    """Whether the user stops it when it has begun to speak."""


def read(inputs: int, outputs: int, *, cached: int = 0, written: int = 0, thought: int = 0) -> Usage:
    return Usage(
        input_tokens=inputs,
        output_tokens=outputs,
        cache_read_tokens=cached,
        cache_write_tokens=written,
        thinking_tokens=thought,
    )


def claude(*middle: bytes, start: play.Json, end: play.Json, why: str = "end_turn") -> Answer:
    return play.stream([play.message_start(usage=start), *middle, *play.message_end(why, usage=end)])


ANTHROPIC: dict[str, Case] = {
    "text": Case(
        answers=[claude(*play.text_block(0, "a"), start={"input_tokens": 25, "output_tokens": 1}, end={"output_tokens": 15})],
        billed=[read(25, 15)],
    ),
    "cache": Case(
        answers=[
            claude(
                *play.text_block(0, "a"),
                start={
                    "input_tokens": 21,
                    "cache_creation_input_tokens": 188086,
                    "cache_read_input_tokens": 400,
                    "output_tokens": 1,
                },
                end={"output_tokens": 393},
            )
        ],
        billed=[read(21, 393, cached=400, written=188086)],
    ),
    "tools": Case(
        answers=[play.anthropic_tools(LOOK, text="let me see"), play.anthropic_text("42")],
        billed=[read(10, 5), read(10, 5)],
    ),
    "refusal": Case(
        answers=[
            claude(
                *play.text_block(0, "I"),
                start={"input_tokens": 564, "output_tokens": 1},
                end={"output_tokens": 22},
                why="refusal",
            )
        ],
        billed=[read(564, 22)],
    ),
    "thinking": Case(
        answers=[
            claude(
                *play.thinking_block(0, "hm"),
                *play.text_block(1, "a"),
                start={"input_tokens": 30, "output_tokens": 1},
                end={"output_tokens": 90},
            )
        ],
        billed=[read(30, 90)],
    ),
    "cut off by the provider": Case(
        answers=[play.stream([play.message_start(usage={"input_tokens": 25, "output_tokens": 1}), Disconnect()])],
        billed=[read(25, 1)],
        outcome="failed",
    ),
    "stopped by the user": Case(
        answers=[
            play.stream(
                [
                    play.message_start(usage={"input_tokens": 25, "output_tokens": 9}),
                    play.text_block(0, "a word")[0],
                    play.text_block(0, "a word")[1],
                    Stall(),
                ]
            )
        ],
        billed=[read(25, 9)],
        outcome="interrupted",
        stop=True,
    ),
}


def gpt(usage: play.Json | None, *texts: str, finish: str = "stop") -> Answer:
    said = [play.delta({"content": text}) for text in texts or ("a",)]
    end = play.openai_end(finish, usage=usage)
    return play.stream(
        [play.delta({"role": "assistant", "content": ""}), *said, *(end if usage is not None else [end[0], end[2]])]
    )


def counted(prompt: int, completion: int, *, cached: int = 0, reasoning: int = 0) -> play.Json:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }


OPENAI: dict[str, Case] = {
    "text": Case(answers=[gpt(counted(19, 10))], billed=[read(19, 10)]),
    "cache": Case(answers=[gpt(counted(2006, 300, cached=1920))], billed=[read(86, 300, cached=1920)]),
    "reasoning": Case(answers=[gpt(counted(75, 1186, reasoning=1024))], billed=[read(75, 1186, thought=1024)]),
    "tools": Case(
        answers=[play.openai_tools(LOOK, text="let me see"), play.openai_text("42")], billed=[read(10, 5), read(10, 5)]
    ),
    "refusal": Case(answers=[gpt(counted(81, 11), "I cannot", finish="content_filter")], billed=[read(81, 11)]),
}


async def entries(server: RunningServer) -> list[LedgerEntry]:
    ledger = server.server.vm.tenancy.store.accounts(DEFAULT_TENANT).ledger
    return [entry for _, entry in await ledger.list()]


async def run(case: Case, provider_name: str, model: str) -> tuple[list[LedgerEntry], dict[str, object]]:
    async with open_provider() as provider:
        provider.play(*case.answers)
        base = provider.base_url if provider_name == "anthropic" else f"{provider.base_url}/v1"
        config = ServerConfig(
            system=SystemSettings(port=0, data_dir=MEMORY, shutdown_seconds=0),
            llm=LlmSettings(provider=provider_name, model=model, api_key=Secret("sk-test"), base_url=base),
        )
        async with start_server(config) as server, client(server.ws_url) as alice:
            end = await take_turn(alice, case)
            return await entries(server), end


async def take_turn(alice: Client19, case: Case) -> dict[str, object]:
    image_id = (await alice.image())["imageId"]
    sent = await alice.request("message_send_request", imageId=image_id, content="go")
    if case.stop:
        await alice.wait(lambda event: event["type"] == "text_delta")
        await alice.request("agent_interrupt_request", imageId=image_id)
    data: dict[str, object] = (await alice.end_of(sent["turnId"]))["data"]
    return data


def check(case: Case, found: list[LedgerEntry], end: dict[str, object]) -> None:
    assert end["outcome"] == case.outcome
    assert [entry.usage for entry in found] == case.billed
    assert end["price"] == sum(entry.price or 0 for entry in found)
    for entry in found:
        assert entry.cost is not None
        assert entry.price == round(entry.cost * 105 / 100)


@pytest.mark.parametrize("name", ANTHROPIC)
async def test_f17_anthropics_answers_are_billed_to_the_token(name: str) -> None:
    with anyio.fail_after(200):
        found, end = await run(ANTHROPIC[name], "anthropic", "claude-sonnet-4-6")
    check(ANTHROPIC[name], found, end)
    if name == "cache":
        # $3 in, $15 out, $0.30 from and $3.75 into the cache, per million.
        assert found[0].cost == 21 * 3_000 + 393 * 15_000 + 400 * 300 + 188_086 * 3_750


@pytest.mark.parametrize("name", OPENAI)
async def test_f17_openais_answers_are_billed_to_the_token(name: str) -> None:
    with anyio.fail_after(200):
        found, end = await run(OPENAI[name], "openai", "gpt-4o")
    check(OPENAI[name], found, end)
    if name == "cache":
        # $2.50 in, $10 out, $1.25 from the cache, per million.
        assert found[0].cost == 86 * 2_500 + 300 * 10_000 + 1_920 * 1_250


async def test_f17_an_answer_without_usage_is_an_estimate_and_says_so() -> None:
    case = Case(answers=[gpt(None, "some words", " of an answer")], billed=[])
    with anyio.fail_after(200):
        found, _ = await run(case, "openai", "gpt-4o")
    (entry,) = found
    assert entry.usage.estimated
    assert entry.usage.input_tokens > 0
    assert entry.usage.output_tokens > 0
    assert entry.price is not None
    assert entry.price > 0
