"""The recorded conversations of an unmodified 1.9 client, played against our server."""

from collections import Counter
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from tests.support.replay import ADDITIVE, Comparison, Difference, expected, load, play, recorded_model, sockets
from tests.support.serving import DEFAULT_TITLES, Served, provide_tools, serving
from tests.support.wire import Json

from agentvm.drivers.base import ToolSpec
from agentvm.drivers.scripted import Script
from agentvm.runtime.tools import Tool


def text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def is_error(data: Any) -> bool:
    """What a refused command is answered with, where 1.9 did something odd instead."""
    return text(data.get("requestId")) and text(data.get("error"))


NO_STACK_TRACE = Difference(
    "Q4, item 55: no stack traces", "system_error", ".data.details", lambda ours: not isinstance(ours, str)
)
INTERRUPTED = Difference(
    "Q17: an interrupted turn says so", "conversation_end", ".data.reason", lambda ours: ours in ("completed", "interrupted")
)
FILLED_TOOL_USE_STOP = Difference(
    "Q18: tool_use_stop is filled in",
    "tool_use_stop",
    ".data",
    lambda ours: text(ours["toolCallId"]) and ours["toolName"] == "Bash" and ours["input"]["command"] == "echo tool-says-hi",
)
REAL_CODES = tuple(
    Difference(f"Q23: real error codes in {kind}", kind, path, lambda ours: ours == "provider_bad_request")
    for kind, path in (
        ("error_received", ".data.errorCode"),
        ("error_message", ".data.errorCode"),
        ("error_occurred", ".data.code"),
        ("image_messages_response", ".data.messages[].errorCode"),
    )
)
NOT_RECOVERABLE = Difference(
    "Q23: a bad request does not get better by itself", "error_occurred", ".data.recoverable", lambda ours: ours is False
)
CONTAINERS = Difference(
    "Q13: persisted containers are listed",
    "container_list_response",
    ".data.containerIds",
    lambda ours: isinstance(ours, list) and all(map(text, ours)),
)
CONTAINER_EXISTS = Difference(
    "Q13: persisted containers are found", "container_get_response", ".data.exists", lambda ours: ours is True
)

TRANSCRIPTS: dict[str, tuple[Difference, ...]] = {
    "01-connect-containers.jsonl": (),
    "02-image-crud.jsonl": (),
    "03-message-two-turns.jsonl": (),
    "05-interrupt.jsonl": (INTERRUPTED,),
    "06-run-stop-agents.jsonl": (),
    "13-llm-error.jsonl": (*REAL_CODES, NOT_RECOVERABLE),
    "21-multimodal.jsonl": (),
    "22-context-emitCommand.jsonl": (),
}


def as_installed(script: Script, data_dir: Path | None) -> AbstractAsyncContextManager[Served]:
    """A server as people have it who configure nothing: what is additive by default is heard too."""
    return serving(script, data_dir=data_dir, titles=DEFAULT_TITLES)


async def replay(
    records: list[Json], differences: tuple[Difference, ...], data_dir: Path | None = None, additive: frozenset[str] = ADDITIVE
) -> None:
    comparison = Comparison(differences)
    async with as_installed(recorded_model(records), data_dir) as server, sockets(server.url) as clients:
        assert await play(expected(records), clients, comparison, additive) == []
        for one in clients.all:
            assert [kind for kind in one.types[one.at :] if kind not in additive] == []
    assert comparison.used == {difference.why for difference in differences}


@pytest.mark.parametrize("name", TRANSCRIPTS)
async def test_a_recorded_conversation_is_heard_again(name: str, tmp_path: Path) -> None:
    await replay(load(name), TRANSCRIPTS[name], tmp_path)


async def test_a_recorded_tool_turn_is_heard_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(arguments: dict[str, object]) -> object:
        assert arguments["command"] == "echo tool-says-hi"
        return "tool-says-hi"

    # The recorded server had a shell; ours is given something that answers to the same name.
    spec = ToolSpec(name="Bash", description="Runs a command", input_schema={"type": "object"})
    provide_tools(monkeypatch, Tool(spec=spec, run=run))
    await replay(load("04-tool-turn.jsonl"), (FILLED_TOOL_USE_STOP,))


async def test_recorded_errors_are_heard_again() -> None:
    records = load("12-errors.jsonl")
    start = next(number for number, record in enumerate(records) if record.get("note") == "request container_create_request {}")
    await replay(records[:start], (NO_STACK_TRACE,))


async def test_commands_without_a_container_are_refused_where_1_9_made_a_container_called_undefined() -> None:
    records = load("12-errors.jsonl")
    start = next(number for number, record in enumerate(records) if record.get("note") == "request container_create_request {}")
    kept = [record for record in records[start:] if not made_from_undefined(record)]
    refused = tuple(
        Difference(f"{kind} without containerId is refused", kind, ".data", is_error)
        for kind in ("container_create_response", "image_create_response")
    )
    await replay(kept, refused, additive=ADDITIVE | {"system_error"})


def made_from_undefined(record: Json) -> bool:
    frame = record.get("json", {})
    return bool(frame.get("type") in ("container_created", "subscribe"))


async def test_recorded_noise_is_neither_echoed_nor_fatal() -> None:
    # Ours answers noise to its sender (`system_error`), and unknown commands (Q11) where 1.9 was silent.
    await replay(load("14-malformed-frames.jsonl"), (CONTAINERS,), additive=ADDITIVE | {"system_error", "bogus_response"})


async def test_a_recorded_restart_is_heard_again(tmp_path: Path) -> None:
    records = load("17-restart.jsonl")
    script, wanted = recorded_model(records), expected(records)
    stop = next(number for number, record in enumerate(wanted) if record.get("note") == "SIGTERM server")
    again = next(number for number, record in enumerate(wanted) if "restarted" in record.get("note", ""))
    comparison = Comparison((CONTAINERS, CONTAINER_EXISTS))
    async with as_installed(script, tmp_path) as first, sockets(first.url) as clients:
        assert await play(wanted[:stop], clients, comparison) == []
        old = clients.all[0]
        await first.running.server.close()
        # 1.9 closed without a code; ours says why.
        assert await old.wait_closed() == 1001
    async with as_installed(script, tmp_path) as second, sockets(second.url) as clients:
        assert await play(wanted[again:], clients, comparison) == []
        said = second.model.prompts[-1].conversation
    assert len(said) == 3, "the model is told what was said before the restart"


def test_a_frame_that_says_less_or_something_else_is_seen() -> None:
    recorded: Json = {"type": "x", "timestamp": 1794727321730, "data": {"imageId": "img_a_1", "names": ["n"], "online": True}}
    ours: Json = {
        "type": "x",
        "timestamp": 1794727321731,
        "data": {"imageId": "img_b_2", "names": ["n"], "online": True, "more": 1},
    }
    assert Comparison().problems(recorded, ours) == []
    less: list[Json] = [{}, {"names": []}, {"names": ["m"]}, {"online": 1}, {"imageId": 5}]
    for change in less:
        changed = {**ours, "data": {**ours["data"], **change}} if change else {"type": "x", "timestamp": 1794727321731}
        assert Comparison().problems(recorded, changed)
    assert Comparison().problems(recorded, {**ours, "timestamp": 1794727321.5})
    bound = Comparison()
    bound.problems(recorded, ours)
    assert bound.problems(recorded, {**ours, "data": {**ours["data"], "imageId": "img_c_3"}})


async def test_the_default_title_of_a_session_is_the_only_thing_that_is_heard_because_of_it(tmp_path: Path) -> None:
    records = load("03-message-two-turns.jsonl")
    heard = []
    for number, titles in enumerate(("off", DEFAULT_TITLES)):
        script = recorded_model(records)
        async with serving(script, data_dir=tmp_path / str(number), titles=titles) as server, sockets(server.url) as clients:
            assert await play(expected(records), clients, Comparison()) == []
            if titles != "off":
                await clients.all[0].wait("session_title_updated")
            for one in clients.all:
                await one.settle()
            heard.append(sum((Counter(one.types) for one in clients.all), Counter[str]()))
    assert heard[1] - heard[0] == {"session_title_updated": 1}
    assert heard[0] - heard[1] == {}


def test_every_transcript_is_played() -> None:
    played = {*TRANSCRIPTS, "04-tool-turn.jsonl", "12-errors.jsonl", "14-malformed-frames.jsonl", "17-restart.jsonl"}
    assert {path.name for path in Path(__file__).parent.joinpath("transcripts").glob("*.jsonl")} == played
