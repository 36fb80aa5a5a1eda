"""The recorded conversations of an unmodified 1.9 client, played against the edge."""

import json

import anyio
import pytest
from tests.compat.test_replay import (
    CONTAINER_EXISTS,
    CONTAINERS,
    FILLED_TOOL_USE_STOP,
    INTERRUPTED,
    NO_STACK_TRACE,
    NOT_RECOVERABLE,
    REAL_CODES,
    is_error,
    made_from_undefined,
)
from tests.edge.test_tools import image_file, tool
from tests.support.edge import EdgeServer
from tests.support.edge_answers import played
from tests.support.provider import Answer, ScriptedProvider
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
OUTLIVES = Difference(
    "an agent here is a row, which no crash ends", "image_list_response", ".data.records[].online", lambda ours: ours is True
)
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


async def test_a_recorded_tool_turn_is_heard_again(url: str, edge: EdgeServer, provider: ScriptedProvider) -> None:
    """The recorded server had a shell; the agent here has a request that answers to the same name."""
    spec = tool("Bash", "http", entry=f"POST http://127.0.0.1:{edge.provider_port}/bash", effect="read")
    edge.add_file("shell.avmimage", image_file(spec))
    records = load("04-tool-turn.jsonl")
    for record in records:
        if record.get("json", {}).get("type") == "image_create_request":
            record["json"]["data"]["config"]["definition"] = "shell"
    first, *rest = played(recorded_calls(records))
    provider.play(first, Answer(content_type="text/plain", steps=(b"tool-says-hi",)), *rest)
    comparison = Comparison((FILLED_TOOL_USE_STOP,))
    async with sockets(url) as clients:
        assert await play(expected(records), clients, comparison, ADDITIVE) == []
    assert json.loads(provider.requests[1].body)["command"] == "echo tool-says-hi"
    assert comparison.used == {FILLED_TOOL_USE_STOP.why}


async def test_a_recorded_restart_is_heard_again(url: str, edge: EdgeServer, provider: ScriptedProvider) -> None:
    records = load("17-restart.jsonl")
    wanted = expected(records)
    stop = next(number for number, record in enumerate(wanted) if record.get("note") == "SIGTERM server")
    again = next(number for number, record in enumerate(wanted) if "restarted" in record.get("note", ""))
    provider.play(*played(recorded_calls(records)))
    comparison = Comparison((CONTAINERS, CONTAINER_EXISTS, OUTLIVES))
    async with sockets(url) as clients:
        assert await play(wanted[:stop], clients, comparison) == []
        await anyio.to_thread.run_sync(edge.kill)
    await anyio.to_thread.run_sync(edge.start)
    async with sockets(url) as clients:
        assert await play(with_the_same_agent(wanted[:stop], wanted[again:]), clients, comparison) == []
    told = json.loads(provider.requests[-1].body)["messages"]
    assert len(told) == 3, "the model is told what was said before the restart"


def with_the_same_agent(before: list[Json], after: list[Json]) -> list[Json]:
    """What was recorded after a restart, with the agent of before: nothing has ended it, so none is registered."""
    first, second = (
        next(record["json"]["data"]["agentId"] for record in records if _kind(record) == "message_send_response")
        for records in (before, after)
    )
    kept = [record for record in after if _kind(record) != "agent_registered"]
    same: list[Json] = json.loads(json.dumps(kept).replace(second, first))
    return same


def _kind(record: Json) -> object:
    return record.get("json", {}).get("type")


def test_every_transcript_is_played() -> None:
    played_here = {*PLAYED, "04-tool-turn.jsonl", "12-errors.jsonl", "14-malformed-frames.jsonl", "17-restart.jsonl"}
    assert {path.name for path in TRANSCRIPTS.glob("*.jsonl")} == played_here
