"""F9: whatever the provider does, the turn ends with a clear code within a bound, after few tries, and is counted once."""

import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
import h11
import pytest
from tests.faults.invariants import check_events, check_messages, check_texts
from tests.faults.process import read_messages, until
from tests.faults.shapes import ANTHROPIC, OPENAI, Dialect, Shape, shapes
from tests.support.provider import ProviderRequest, ScriptedProvider
from tests.support.wire import Client19, client

from agentvm import ServerConfig, start_server
from agentvm.config import LlmSettings, SystemSettings
from agentvm.model.limits import Limits
from agentvm.model.secret import Secret

LONGEST = 60.0
STEPS = 4

Shapes = Mapping[str, Shape]


class Stage(ScriptedProvider):
    """Plays for each request the shape that its user named."""

    def __init__(self, port: int, play: Shapes, tries: Counter[str]) -> None:
        super().__init__(port)
        self._tries = tries
        self._scripts = {name: list(shape.plays) for name, shape in play.items()}

    async def _answer(self, link: h11.Connection, stream: anyio.abc.ByteStream, request: ProviderRequest) -> bool:
        (name,) = (name for name in self._scripts if f"play {name}!".encode() in request.body)
        self._tries[name] += 1
        self._answers = self._scripts[name]
        return await super()._answer(link, stream, request)


@asynccontextmanager
async def staged(play: Shapes, tries: Counter[str]) -> AsyncIterator[str]:
    """A provider that plays these shapes; its address."""
    (where,) = {shape.where for shape in play.values()}

    async def break_off(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            tries.update(list(play))
            await stream.receive()
            if where == "silent":
                await anyio.sleep_forever()
            if where == "reset":
                raw = stream.extra(anyio.abc.SocketAttribute.raw_socket)
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        if where == "refused":
            await listener.aclose()
            tries.update(list(play))
        elif where in ("http", "stalled"):
            tasks.start_soon(listener.serve, Stage(port, play, tries).serve)
        else:
            tasks.start_soon(listener.serve, break_off)
        yield f"http://127.0.0.1:{port}"
        tasks.cancel_scope.cancel()


async def check_turn(alice: Client19, sent: str, shape: Shape) -> None:
    end = (await alice.end_of(sent))["data"]
    errors = [event["data"]["code"] for event in alice.events if event["type"] == "error_occurred"]
    assert errors == ([] if shape.code is None else [shape.code])
    assert end["outcome"] == ("completed" if shape.code is None else "failed")
    assert end["stopReason"] == (shape.stop if shape.code is None else "error")
    assert end["duration"] >= shape.takes * 1000
    counted = (end["usage"]["inputTokens"], end["usage"]["outputTokens"])
    assert shape.used in (None, counted), counted
    assert min(counted) >= 0
    said = "".join(event["data"]["text"] for event in alice.events if event["type"] == "text_delta")
    assert said == shape.text


async def play_one(url: str, name: str, shape: Shape) -> None:
    async with client(url) as alice:
        record = await alice.image(name)
        asked = await alice.request("message_send_request", imageId=record["imageId"], content=f"play {name}!")
        # Longer than any turn here may take: never "spinning".
        with anyio.fail_after(LONGEST):
            await until(lambda: "turn_response" in alice.types)
        await check_turn(alice, asked["turnId"], shape)
        events = [event for event in alice.events if "cursor" in event]
        check_events(events)
        check_texts(events)
        check_messages(events, await read_messages(url, record["sessionId"]))


def is_timed(play: Shapes) -> bool:
    """Whether its turns end when their time is over."""
    return bool({"stalled", "silent"} & {shape.where for shape in play.values()})


async def play_out(wire: Dialect, play: Shapes, data_dir: Path, wrong: list[str]) -> None:
    tries = Counter[str]()
    patience = 2.0 if is_timed(play) else LONGEST / 2

    async def try_out(name: str) -> None:
        try:
            await play_one(server.ws_url, name, play[name])
        except* (AssertionError, TimeoutError) as problem:
            wrong.append(f"{name}: {problem.exceptions}")

    async with staged(play, tries) as url:
        config = ServerConfig(
            system=SystemSettings(port=0, data_dir=str(data_dir), shutdown_seconds=0),
            llm=LlmSettings(provider=wire.name, model="test-model", api_key=Secret("k"), base_url=url),
            limits=Limits(turn_seconds=patience, steps=STEPS),
        )
        async with start_server(config) as server, anyio.create_task_group() as tasks:
            for name in play:
                tasks.start_soon(try_out, name)
    wrong += [f"{name}: tried {tries[name]} times" for name, shape in play.items() if tries[name] != shape.tries]


def by_account(matrix: Shapes) -> list[Shapes]:
    """Those that fail in one place share a server, unless one makes its provider look out: that is all the others' business."""
    accounts: dict[str, dict[str, Shape]] = {}
    for name, shape in matrix.items():
        out = name == "an error at the beginning" or any(play.status != 200 for play in shape.plays)
        accounts.setdefault(name if out else shape.where, {})[name] = shape
    return list(accounts.values())


@pytest.mark.parametrize("wire", [ANTHROPIC, OPENAI], ids=lambda wire: wire.name)
async def test_f9_every_failure_of_a_provider_ends_the_turn_with_a_clear_code_after_few_tries_and_is_counted_once(
    tmp_path: Path, wire: Dialect
) -> None:
    matrix, wrong = shapes(wire), list[str]()
    assert len(matrix) >= 40
    groups = by_account(matrix)
    with anyio.fail_after(200):
        # Turns that run out of time come last and alone: those of the others would use up theirs.
        for timed in (False, True):
            async with anyio.create_task_group() as tasks:
                for number, play in enumerate(groups):
                    if is_timed(play) is timed:
                        tasks.start_soon(play_out, wire, play, tmp_path / str(number), wrong)
    assert not wrong, "\n".join(wrong)
