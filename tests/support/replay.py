"""Replay — plays the client's side of a recorded transcript and compares what our server says with what was recorded.

Ids are compared by role: the first time a recorded id meets one of ours the two are bound, and from then on each must
stand where the other stood. Times are compared by type. Everything else must be equal; ours may say more, never less.
"""

import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from tests.support.wire import Client19, Json, client_of

from agentvm.drivers import base as model
from agentvm.drivers.scripted import Pause, Script, ScriptStep, in_turn
from agentvm.errors import ProviderBadRequest
from agentvm.model.usage import Usage

TRANSCRIPTS = Path(__file__).resolve().parent.parent / "compat" / "transcripts"

ADDITIVE = frozenset(
    {
        "server_hello",  # the probe that tells 1.9 from older clients
        "user_message",  # Q26: what a second client needs to show the user's own message
        "tool_started",  # a call that must not run twice is told before it begins
        "turn_request",  # Q20: typed in 1.9, never sent there
        "turn_response",
        "message_delta",  # Q20: usage
        "tool_completed",  # Q18
        "tool_failed",
        "image_created",  # so that list views update by themselves
        "image_updated",
        "image_deleted",
        "session_title_updated",  # once per session, of its first words, unless the operator turns that off
    }
)
"""Events that 1.9 does not send and every 1.x client ignores."""

_ID = re.compile(r"(img|sess|agent|msg)_[a-z0-9_]+")
_TIMES = {"timestamp", "createdAt", "updatedAt", "savedAt", "registeredAt"}


@dataclass(frozen=True)
class Difference:
    """Where we differ from 1.9 on purpose. `path` is relative to the frame; a frame of no type is any frame."""

    why: str
    type: str
    path: str
    ours: Callable[[Any], bool]


def load(name: str) -> list[Json]:
    return [json.loads(line) for line in (TRANSCRIPTS / name).read_text(encoding="utf-8").splitlines()]


# --- the model, as it was recorded


def recorded_model(records: Iterable[Json]) -> Script:
    """A script that gives, call by call, the outputs behind the recorded events."""
    return in_turn(*recorded_calls(records))


def recorded_calls(records: Iterable[Json]) -> list[list[ScriptStep]]:
    """The outputs behind the recorded events, by the call of the model that gave them."""
    calls: list[list[ScriptStep]] = []
    for frame in (record["json"] for record in records if record.get("dir") == "s->c" and "json" in record):
        data = frame.get("data") if isinstance(frame, dict) else None
        if not isinstance(data, dict):
            continue
        if frame["type"] == "message_start":
            calls.append([])
        elif frame["type"] == "error_received":
            calls.append([ProviderBadRequest(data["message"])])
        elif frame["type"] == "interrupted" and calls and not isinstance(calls[-1][-1], model.MessageStopped):
            calls[-1].append(Pause(anyio.Event()))
        if calls and not (calls[-1] and isinstance(calls[-1][-1], Pause)):
            calls[-1] += _outputs(frame["type"], data)
    return calls


def _outputs(kind: str, data: Json) -> Iterator[ScriptStep]:
    match kind:
        case "message_start":
            yield model.MessageStarted(data["messageId"], data["model"])
        case "text_content_block_start":
            yield model.TextStarted()
        case "text_delta":
            yield model.TextChunk(data["text"])
        case "text_content_block_stop":
            yield model.TextStopped()
        case "tool_use_start":
            yield model.ToolCallStarted(data["toolCallId"], data["toolName"])
        case "input_json_delta":
            yield model.ToolInputChunk(data["partialJson"])
        case "tool_use_stop":
            yield model.ToolCallStopped()
        case "message_stop":
            yield model.UsageReported(Usage(input_tokens=1, output_tokens=1))
            yield model.MessageStopped(data["stopReason"])
        case _:
            pass


# --- what of the recording is expected of us


def expected(records: list[Json]) -> list[Json]:
    """The records without what only the defects of 1.9 put there."""
    asked: dict[str, set[str]] = {}
    spoken: list[Any] = []
    kept: list[Json] = []
    responding: dict[str, bool] = {}
    for record in records:
        frame: Any = record.get("json")
        if record.get("dir") == "c->s":
            spoken.append(frame if "hex" not in record else json.loads(bytes.fromhex(record["hex"])))
            asked.setdefault(record["conn"], set()).add(_request_id(spoken[-1]))
        elif "json" in record:
            # Q7: whatever a client sends is echoed to everybody.
            if frame in spoken:
                continue
            # Q4: responses go to everybody, not only to who asked.
            if frame["category"] == "response" and _request_id(frame) not in asked.get(record["conn"], set()):
                continue
            # Q29: once per text block, not per delta.
            if frame["type"] == "conversation_responding" and responding.get(record["conn"]):
                continue
            if frame["type"] in ("text_content_block_start", "conversation_responding"):
                responding[record["conn"]] = frame["type"] == "conversation_responding"
        kept.append(record)
    return kept


def _request_id(frame: Any) -> str:
    data = frame.get("data") if isinstance(frame, dict) else None
    return str(data.get("requestId", "")) if isinstance(data, dict) else ""


# --- comparison


@dataclass
class Comparison:
    """Binds ids and finds where a frame of ours says less, or something else."""

    differences: tuple[Difference, ...] = ()
    used: set[str] = field(default_factory=set)
    _ours: dict[str, str] = field(default_factory=dict)

    def translate(self, value: Any) -> Any:
        """A recorded frame of the client with our ids in it."""
        text = json.dumps(value)
        return json.loads(_ID.sub(lambda found: self._ours.get(found.group(), found.group()), text))

    def problems(self, recorded: Json, ours: Json) -> list[str]:
        return list(self._compare(recorded["type"], "", recorded, ours))

    def _compare(self, kind: str, path: str, recorded: Any, ours: Any) -> Iterator[str]:
        for difference in self.differences:
            if (difference.type, difference.path) == (kind, path):
                self.used.add(difference.why)
                if not difference.ours(ours):
                    yield f"{kind}{path}: {ours!r} is not the intended difference ({difference.why})"
                return
        if isinstance(recorded, dict) and isinstance(ours, dict):
            for key, value in recorded.items():
                yield from self._compare(kind, f"{path}.{key}", value, ours.get(key, _ABSENT))
        elif isinstance(recorded, list) and isinstance(ours, list) and len(recorded) == len(ours):
            for one, other in zip(recorded, ours, strict=True):
                yield from self._compare(kind, f"{path}[]", one, other)
        elif path.rpartition(".")[2] in _TIMES:
            if not (type(ours) is int and ours > 1_500_000_000_000):
                yield f"{kind}{path}: {ours!r} is no time in ms"
        elif not self._same(recorded, ours):
            yield f"{kind}{path}: recorded {recorded!r}, ours {ours!r}"

    def _same(self, recorded: Any, ours: Any) -> bool:
        if not (isinstance(recorded, str) and isinstance(ours, str) and _ID.fullmatch(recorded)):
            return type(recorded) is type(ours) and bool(recorded == ours)
        if recorded not in self._ours and ours not in self._ours.values():
            self._ours[recorded] = ours
        return self._ours.get(recorded, recorded) == ours


class _Absent:
    def __repr__(self) -> str:
        return "nothing"


_ABSENT = _Absent()


# --- playing


class Replayed(Client19):
    """Acknowledges like 1.9, but subscribes only when the recording does. `at` is how far it was compared."""

    subscribes = False
    at = 0

    async def next_event(self, additive: frozenset[str]) -> Json:
        """The next event a 1.9 server would have sent too."""
        while True:
            await self.until(lambda: len(self.events) > self.at)
            event = self.events[self.at]
            self.at += 1
            # A refusal without a request id answers nobody: no 1.x client can match it.
            unaddressed = "error" in event["data"] and "requestId" not in event["data"]
            if event["type"] not in additive and not unaddressed:
                return event


class Sockets:
    """The recording's connections, opened when they first speak or hear."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stack = AsyncExitStack()
        self._open: dict[str, Replayed] = {}

    async def get(self, label: str) -> Replayed:
        if label not in self._open:
            self._open[label] = await self._stack.enter_async_context(client_of(Replayed, self._url))
        return self._open[label]

    @property
    def all(self) -> tuple[Replayed, ...]:
        return tuple(self._open.values())

    async def close(self) -> None:
        await self._stack.aclose()


@asynccontextmanager
async def sockets(url: str) -> AsyncIterator[Sockets]:
    opened = Sockets(url)
    try:
        yield opened
    finally:
        await opened.close()


async def play(records: Iterable[Json], to: Sockets, comparison: Comparison, additive: frozenset[str] = ADDITIVE) -> list[str]:
    """Plays the records in order; returns what is wrong with our frames."""
    wrong: list[str] = []
    for record in records:
        if "note" in record or "close" in record:
            continue
        who = await to.get(record["conn"])
        if record["dir"] == "s->c":
            wrong += await _hear(who, record["json"], comparison, additive)
        elif "hex" in record:
            await who.socket.send(bytes.fromhex(record["hex"]))
        elif "text" in record:
            await who.socket.send(record["text"])
        else:
            await who.socket.send(json.dumps(comparison.translate(record["json"])))
        if wrong:
            break
    return wrong


async def _hear(who: Replayed, recorded: Json, comparison: Comparison, additive: frozenset[str]) -> list[str]:
    try:
        ours = await who.next_event(additive)
    except (TimeoutError, AssertionError):
        return [f"recorded {recorded['type']}, ours nothing (so far {who.types[-5:]})"]
    if ours["type"] != recorded["type"]:
        return [f"recorded {recorded['type']}, ours {ours['type']} {ours['data']}"]
    return comparison.problems(recorded, ours)
