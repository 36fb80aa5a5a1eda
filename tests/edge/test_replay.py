"""The recorded conversations of an unmodified 1.9 client, played against the edge."""

import pytest
from tests.compat.test_replay import (
    CONTAINERS,
    INTERRUPTED,
    NO_STACK_TRACE,
    NOT_RECOVERABLE,
    REAL_CODES,
    is_error,
    made_from_undefined,
)
from tests.support.edge_answers import played
from tests.support.provider import ScriptedProvider
from tests.support.replay import ADDITIVE, TRANSCRIPTS, Comparison, Difference, expected, load, play, recorded_calls, sockets
from tests.support.wire import Json

PLAYED: dict[str, tuple[Difference, ...]] = {
    "01-connect-containers.jsonl": (),
    "02-image-crud.jsonl": (),
    "03-message-two-turns.jsonl": (),
    "05-interrupt.jsonl": (INTERRUPTED,),
    "06-run-stop-agents.jsonl": (),
    "13-llm-error.jsonl": (*REAL_CODES, NOT_RECOVERABLE),
    "21-multimodal.jsonl": (),
    "22-context-emitCommand.jsonl": (),
}
ELSEWHERE = {
    "04-tool-turn.jsonl": "a shell is refused at the edge: test_tools.py",
    "17-restart.jsonl": "the edge has no process that could be restarted: test_crash.py",
}
UNDEFINED = "request container_create_request {}"


async def replay(
    url: str, provider: ScriptedProvider, records: list[Json], differences: tuple[Difference, ...], more: frozenset[str]
) -> None:
    provider.play(*played(recorded_calls(records)))
    comparison = Comparison(differences)
    async with sockets(url) as clients:
        assert await play(expected(records), clients, comparison, ADDITIVE | more) == []
    assert comparison.used == {difference.why for difference in differences}


@pytest.mark.parametrize("name", PLAYED)
async def test_a_recorded_conversation_is_heard_again(name: str, url: str, provider: ScriptedProvider) -> None:
    await replay(url, provider, load(name), PLAYED[name], frozenset())


async def test_recorded_errors_are_heard_again(url: str, provider: ScriptedProvider) -> None:
    records = load("12-errors.jsonl")
    start = next(number for number, record in enumerate(records) if record.get("note") == UNDEFINED)
    await replay(url, provider, records[:start], (NO_STACK_TRACE,), frozenset())


async def test_commands_without_a_container_are_refused(url: str, provider: ScriptedProvider) -> None:
    records = load("12-errors.jsonl")
    start = next(number for number, record in enumerate(records) if record.get("note") == UNDEFINED)
    kept = [record for record in records[start:] if not made_from_undefined(record)]
    refused = tuple(
        Difference(f"{kind} without containerId is refused", kind, ".data", is_error)
        for kind in ("container_create_response", "image_create_response")
    )
    await replay(url, provider, kept, refused, frozenset({"system_error"}))


async def test_recorded_noise_is_neither_echoed_nor_fatal(url: str, provider: ScriptedProvider) -> None:
    records = load("14-malformed-frames.jsonl")
    await replay(url, provider, records, (CONTAINERS,), frozenset({"system_error", "bogus_response"}))


def test_every_transcript_is_played() -> None:
    played_here = {*PLAYED, *ELSEWHERE, "12-errors.jsonl", "14-malformed-frames.jsonl"}
    assert {path.name for path in TRANSCRIPTS.glob("*.jsonl")} == played_here
