"""A server that is killed while clients of every gateway hear an answer: each has it whole from the next, in one turn."""

import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
from tests.faults.process import WAIT, open_server
from tests.faults.server import text_of, words
from tests.gateways.test_repeats import requests

SAID = "go until restarted"
RESPONSE = {"model": "default", "input": SAID, "stream": True, "background": True}
STREAM = {"Accept": "application/json, text/event-stream"}


def sent() -> dict[str, tuple[str, Any, dict[str, str]]]:
    """A message for each gateway, each with a key of its own."""
    return {
        name: (path, body, {**STREAM, **dict.fromkeys(about, name)}) for name, (path, body, about) in requests(SAID).items()
    }


def events(text: str) -> list[Any]:
    lines = (line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: {"))
    return [json.loads(line) for line in lines]


@asynccontextmanager
async def client(port: int) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=WAIT, trust_env=False) as http:
        yield http


class Heard:
    """What a client has heard when the server was killed."""

    def __init__(self) -> None:
        self.text = ""
        self.begun, self.said = anyio.Event(), anyio.Event()

    async def begin(self, http: httpx2.AsyncClient, path: str, body: Any, about: dict[str, str]) -> None:
        try:
            async with http.stream("POST", path, json=body, headers=about) as stream:
                assert stream.status_code == 200
                self.begun.set()
                async for piece in stream.aiter_text():
                    self.text += piece
                    if words(SAID)[1] in self.text:
                        self.said.set()
        except httpx2.HTTPError:
            # The server was killed.
            assert self.begun.is_set()


async def test_every_client_has_the_answer_of_a_killed_server_whole_and_once(tmp_path: Path) -> None:
    asked = sent()
    with anyio.fail_after(4 * WAIT):
        async with open_server(tmp_path) as server, anyio.create_task_group() as tasks:
            async with client(server.port) as http:
                heard = {name: Heard() for name in asked}
                followed = heard["followed"] = Heard()
                for name, request in (asked | {"followed": ("/v1/responses", RESPONSE, STREAM)}).items():
                    tasks.start_soon(heard[name].begin, http, *request)
                for each in heard.values():
                    await each.begun.wait()
                await followed.said.wait()
                await server.end(signal.SIGKILL)
            await server.start()
            async with client(server.port) as http:
                for name, (path, body, about) in asked.items():
                    again = (await http.post(path, json=body, headers=about)).text
                    assert [word for word in words(SAID) if word.strip() not in again] == [], name
                first = events(followed.text)
                rest = f"/v1/responses/{first[0]['response']['id']}?stream=true&starting_after={first[-1]['sequence_number']}"
                told = [*first, *events((await http.get(rest)).text)]
                assert [event["sequence_number"] for event in told] == list(range(len(told)))
                deltas = [event["delta"] for event in told if event["type"] == "response.output_text.delta"]
                assert "".join(deltas) == text_of(SAID)
                turns = (await http.get("/v1/turns?limit=100")).json()["items"]
                assert [turn["outcome"] for turn in turns] == ["completed"] * len(heard)
            await server.end(signal.SIGTERM)
