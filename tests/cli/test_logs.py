import json
from collections.abc import Iterator
from typing import Any

import anyio
import anyio.to_thread
import click
import pytest
from tests.cli.desk import avm, open_desk
from tests.cli.fake_server import Asked, answering

from agentvm.cli import logs as command
from agentvm.cli.table import Show
from agentvm.log import concerning, get_logger

logger = get_logger("agentvm.tests.cli_logs")

ENTRY = {
    "number": 1,
    "at": 1_700_000_000_123,
    "level": "warning",
    "event": "turn_failed",
    "logger": "l",
    "turnId": "u1",
    "facts": {"code": "timeout", "count": 1234, "why": "it took long", "empty": ""},
    "raised": {"kind": "KeyError", "places": ["a.py:1 f", "b.py:2 g"]},
}


async def test_the_newest_are_printed_last_and_found_by_what_they_are_about() -> None:
    async with open_desk() as desk:
        for number in range(3):
            with concerning(turn_id=f"u{number}", session_id="s1"):
                logger.warning("counted", number=number)
        logger.error("broken", code="x")
        lines = (await desk.ok("logs", "--session", "s1", "-n", "2")).splitlines()
        assert [line.split(" WARNING  ")[1] for line in lines] == [
            "counted number=1 session=s1 turn=u1",
            "counted number=2 session=s1 turn=u2",
        ]
        assert "broken code=x" in await desk.ok("logs", "--level", "error", "--event", "broken", "--since", "1h")
        found = await desk.ok("logs", "--grep", "COUNTED", "--turn", "u1", "--json")
        assert json.loads(found)["turnId"] == "u1"
        assert (await desk.avm("logs", "--turn", "none")).err == "No log entries found.\n"


def test_an_entry_is_one_line_with_its_time_its_facts_and_where_it_broke() -> None:
    with answering(lambda asked: (200, {"items": [ENTRY]})) as (url, asked):
        done = avm("logs", url=url)
    assert done.out == (
        "2023-11-14 22:13:20.123 WARNING  turn_failed"
        ' code=timeout count=1234 why="it took long" empty="" raised="KeyError at b.py:2 g" turn=u1\n'
    )
    assert asked[0].path == "/v1/logs?limit=100&nodes=all"


def test_nothing_in_an_entry_is_obeyed_by_the_terminal() -> None:
    hostile = {"at": "x\x1b[2J", "level": "\x1b[31m", "event": "a\nb\x07", "facts": {"\x1bc": "\u202e\x9b1m"}, "turnId": "\r"}
    with answering(lambda asked: (200, {"items": [hostile]})) as (url, _):
        out = avm("logs", url=url).out
    assert out.count("\n") == 1
    assert out[:-1].isprintable()


def test_colours_are_for_terminals(capsys: pytest.CaptureFixture[str]) -> None:
    with click.Context(command.logs, color=True):
        command._print_all([ENTRY], Show())
    assert "\x1b[33m" in capsys.readouterr().out
    command._print_all([ENTRY], Show())
    assert "\x1b" not in capsys.readouterr().out


def test_pages_are_read_until_there_are_enough() -> None:
    def answer(asked: Asked) -> tuple[int, Any]:
        return 200, {"items": [ENTRY] * 1000, "nextCursor": "7"}

    with answering(answer) as (url, asked):
        assert len(avm("logs", "-n", "1500", "--json", url=url).out.splitlines()) == 1500
        assert avm("logs", "-n", "0", url=url).code == 2
        assert avm("logs", "--level", "loud", url=url).code == 2
    assert [one.path for one in asked] == ["/v1/logs?limit=1000&nodes=all", "/v1/logs?limit=1000&nodes=all&cursor=7"]


def test_who_follows_is_shown_each_line_and_told_when_the_server_ends_it() -> None:
    lines = "\n".join(["", json.dumps(ENTRY), "", json.dumps({**ENTRY, "event": "next"}), ""])
    with answering(lambda asked: (200, lines)) as (url, asked):
        done = avm("logs", "--follow", "--level", "warning", "-n", "5", "--json", url=url)
    assert [json.loads(line)["event"] for line in done.out.splitlines()] == ["turn_failed", "next"]
    assert "closed the stream" in done.err
    assert asked[0].path == "/v1/logs?follow=true&limit=5&level=warning"


def test_a_refusal_is_explained_while_following_too() -> None:
    error = {"code": "refused", "message": "Too many streams are open", "requestId": "req_1"}
    with answering(lambda asked: (503, {"error": error})) as (url, _):
        done = avm("logs", "-f", url=url)
    assert (done.code, done.err) == (1, "Error: Too many streams are open (refused, request req_1)\n")


async def test_following_a_real_server_shows_what_comes() -> None:
    async with open_desk() as desk:
        streams = desk.server.app.gate.streams
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                outs: list[str] = []

                async def follow() -> None:
                    outs.append(await desk.ok("logs", "--follow", "--turn", "u1"))

                tasks.start_soon(follow)
                while not len(streams):
                    await anyio.lowlevel.checkpoint()
                logger.warning("came", turn_id="u1")
                await anyio.wait_all_tasks_blocked()
                await desk.server.server.close()
        assert "came turn=u1" in outs[0]


def test_a_node_that_has_not_answered_is_named_once_and_each_line_has_its_node() -> None:
    pages: Iterator[dict[str, Any]] = iter([{"items": [ENTRY | {"nodeId": 3}], "nextCursor": "3:1"}, {"items": []}])
    silent = [{"nodeId": 4, "name": "b", "error": "gone\x1b"}]
    with answering(lambda asked: (200, {**next(pages), "silentNodes": silent})) as (url, asked):
        done = avm("logs", "--node", "all", "-n", "2000", url=url)
    assert done.out.endswith("turn=u1 node=3\n")
    assert done.err == "Node 4 (b): gone\\x1b\n"
    with answering(lambda asked: (200, {})) as (url, asked):
        assert "the node that is asked" in avm("logs", "-f", "--node", "3", url=url).err
    assert asked == []
