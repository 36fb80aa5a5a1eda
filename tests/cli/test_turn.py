import json
import time
from pathlib import Path
from typing import Any

import anyio
from tests.cli.desk import Desk, avm, open_desk
from tests.cli.fake_server import Asked, answering
from websockets.asyncio.client import connect


async def say(desk: Desk, *texts: str) -> tuple[str, list[dict[str, Any]]]:
    """Turns in one session; its id, and every event of it that was told."""
    heard: list[dict[str, Any]] = []
    headers = {"Authorization": f"Bearer {desk.operator}"}
    with anyio.fail_after(60):
        async with connect(desk.server.url.replace("http", "ws") + "/ws", additional_headers=headers) as socket:

            async def ask(kind: str, until: str, **data: object) -> dict[str, Any]:
                await socket.send(json.dumps({"type": f"{kind}_request", "data": {"requestId": "r", **data}}))
                while True:
                    event: dict[str, Any] = json.loads(await socket.recv())
                    if "cursor" in event:
                        heard.append(event)
                    if event.get("type") == until:
                        return event

            await ask("container_create", "container_create_response", containerId="c1")
            made = await ask("image_create", "image_create_response", containerId="c1", config={})
            image = made["data"]["record"]
            for text in texts:
                await ask("message_send", "turn_response", imageId=image["imageId"], content=text)
    return image["sessionId"], heard


async def test_the_slowest_are_found_without_a_session_and_offline_only_of_one(tmp_path: Path) -> None:
    async with open_desk() as desk:
        session, _ = await say(desk, "one two", "three")
        newest, oldest = await desk.record("turn", "list", "--session", session)
        found = await desk.record("turn", "list", "--slowest", "--since", "7d", "--outcome", "completed")
        assert {turn["turnId"] for turn in found} == {newest["turnId"], oldest["turnId"]}
        assert await desk.record("turn", "list", "--container", "nowhere") == []
        refused = avm("turn", "list", "--slowest", "--data", str(tmp_path), url=desk.server.url)
        assert refused.code == 2
        assert "--session" in refused.err


async def test_turns_are_listed_and_shown() -> None:
    async with open_desk() as desk:
        session, _ = await say(desk, "one two", "three")
        newest, oldest = await desk.record("turn", "list", "--session", session)
        assert (newest["outcome"], oldest["usage"]["outputTokens"]) == ("completed", 2)
        listed = (await desk.ok("turn", "list", "--session", session, "--limit", "1")).splitlines()
        assert len(listed) == 2
        assert newest["turnId"] in listed[1]
        shown = await desk.ok("turn", "show", oldest["turnId"])
        for part in ("completed", "scripted/scripted", "stages (ms)", "accepted", "ended", "$0.000"):
            assert part in shown, part
        line = await desk.record("turn", "show", oldest["turnId"])
        assert sum(line["stages"].values()) == line["duration"]


def test_the_reasons_of_tool_calls_are_shown_on_request() -> None:
    why = [["isolate", "lacks engine python"], ["process", "chosen"]]
    tools = [
        {"toolId": "c1", "name": "sum", "policy": "tenant rule 2: sum", "tier": "process", "why": why},
        {"toolId": "c2", "name": "calculator", "policy": "default rule 3: any call", "tier": "inline"},
        {"toolId": "c3", "name": "old"},
    ]  # fmt: skip
    line = {
        "turnId": "t",
        "sessionId": "s",
        "acceptedAt": 1,
        "duration": 5,
        "usage": {},
        "cost": 0,
        "price": 0,
        "complete": True,
    }
    with answering(lambda asked: (200, {**line, "tools": tools})) as (url, _):
        plain_text, done = avm("turn", "show", "t", url=url).out, avm("turn", "show", "t", "--why", url=url)
    assert "tenant rule 2" not in plain_text
    reasons = done.out[done.out.index("sum (c1)") :].splitlines()
    assert reasons == [
        "sum (c1)", "  policy     tenant rule 2: sum", "  isolate    lacks engine python", "  process    chosen", "",
        "calculator (c2)", "  policy     default rule 3: any call", "  inline     chosen", "",
        "old (c3)", "  policy     not recorded",
    ]  # fmt: skip


async def test_a_replay_is_what_was_told_in_its_order() -> None:
    async with open_desk() as desk:
        session, heard = await say(desk, "北京 is nice", "\x1b[31mred")
        red, nice = await desk.record("turn", "list", "--session", session)
        done = await desk.avm("turn", "replay", nice["turnId"])
        assert (done.code, done.out) == (0, "北京 is nice\n")
        assert done.err.startswith("[completed after ")
        again = [json.loads(line) for line in (await desk.ok("turn", "replay", nice["turnId"], "--json")).splitlines()]
        mine = [event for event in heard if event["context"].get("turnId") == nice["turnId"]]
        assert again == mine
        # A terminal does not obey what is replayed.
        assert (await desk.ok("turn", "replay", red["turnId"])) == "\\x1b[31mred\n"
        assert (await desk.avm("turn", "show", "turn_x")).code == 5


def test_a_replay_may_take_its_time() -> None:
    def answer(asked: Asked) -> tuple[int, object]:
        events = [{"type": "text_delta", "timestamp": at, "data": {"text": str(at)}} for at in (1_000, 1_400, 1_200, 1_200)]
        return 200, {"items": events}

    with answering(answer) as (url, _):
        began = time.monotonic()
        assert avm("turn", "replay", "t", "--speed", "2", url=url).out == "1000140012001200"
        assert 0.2 <= time.monotonic() - began < 60


def test_what_else_happened_is_told_beside_the_text() -> None:
    told = [
        ("tool_use_stop", {"toolName": "calculator", "input": {"x": 1}}),
        ("tool_completed", {"toolName": "calculator", "result": 42}),
        ("tool_failed", {"toolName": "calculator", "error": "no"}),
        ("provider_fallback", {"from": "a/1", "to": "b/1", "reason": "provider_overloaded"}),
        ("error_received", {"message": "broken"}),
        ("turn_response", {"outcome": "failed", "duration": 5}),
    ]

    def answer(asked: Asked) -> tuple[int, object]:
        return 200, {"items": [{"type": kind, "timestamp": 1, "data": data} for kind, data in told]}

    with answering(answer) as (url, _):
        done = avm("turn", "replay", "t", url=url)
    assert done.out == ""
    assert done.err.splitlines() == [
        '[calculator {"x":1}]',
        "[calculator returned 42]",
        "[calculator failed: no]",
        "[b/1 instead of a/1: provider_overloaded]",
        "[failed: broken]",
        "[failed after 5 ms]",
    ]


def test_why_a_turn_ended_is_said_in_all_its_words() -> None:
    words = "The quota tokens_per_day does not allow it: " + "really " * 20 + "not"
    line = {
        "turnId": "t", "sessionId": "s", "acceptedAt": 1_000, "endedAt": 1_500, "outcome": "failed", "duration": 500,
        "usage": {}, "cost": 0, "price": 0, "complete": True, "stages": {"queue": 500},
        "moments": [{"at": 1_500, "what": "failed", "details": {"code": "quota_exceeded", "message": words}}],
    }  # fmt: skip
    with answering(lambda asked: (200, line)) as (url, _):
        done = avm("turn", "show", "t", url=url)
    about, _, steps = done.out.partition("\n\n")
    assert words in about
    assert "…" in steps

    cut = {**line, "outcome": "completed", "stopReason": "max_tokens", "moments": []}
    with answering(lambda asked: (200, cut)) as (url, _):
        assert "max_tokens" in avm("turn", "show", "t", url=url).out


def test_a_turn_whose_log_is_gone_is_shown_by_its_bill() -> None:
    line = {
        "turnId": "t", "sessionId": "s", "acceptedAt": 1_000, "endedAt": 1_500, "outcome": "completed", "duration": 500,
        "usage": {"inputTokens": 3, "outputTokens": 2}, "cost": 0, "price": 0, "complete": False, "moments": [],
        "tools": [{"toolId": "c", "name": "calculator", "startedAt": 1_100, "endedAt": 1_200, "error": "no"}],
        "calls": [
            {"callId": "m", "provider": "p", "model": "m", "endedAt": 1_400, "attempt": 2},
            {"callId": "t/c", "provider": "tier", "model": "process", "endedAt": 1_450},
        ],
    }  # fmt: skip

    def answer(asked: Asked) -> tuple[int, object]:
        return 200, line

    with answering(answer) as (url, _):
        done = avm("turn", "show", "t", url=url)
    assert done.code == 0
    assert "stages" not in done.out
    steps = [" ".join(step.split()) for step in done.out.splitlines()]
    assert any(step.endswith("model p/m, attempt 2") for step in steps)
    assert any(step.endswith("code tier/process") for step in steps)
    assert "calculator: no" in done.out
    assert "were removed" in done.err
