"""Replay of AgentX 2.x — plays the client's side of a recorded transcript and compares our answers with the recorded ones.

Ids are bound by role: the first time a recorded id meets one of ours, and from then on the one is sent for the other. A result
must have the members of the recorded one, of the same types, ours may have more; and the words that clients depend on must be
the same. An error must have the recorded code, or one that says more than "failed". The events of a turn must come in the
recorded order, and each must have the recorded envelope and members.
"""

import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from tests.server.fixtures import open_listener, open_socket
from tests.support.rpc_client import RpcClient

from agentvm.drivers import base as model
from agentvm.drivers.scripted import Pause, Script, ScriptedDriver, ScriptStep, in_turn
from agentvm.errors import ProviderBadRequest
from agentvm.model.usage import Usage

Json = dict[str, Any]
TRANSCRIPTS = Path(__file__).resolve().parent.parent / "compat" / "transcripts_2x"

NOT_OURS = {"osId", "metadata", "mcpServers", "output"}
"""Members of results that name parts which this server does not have, or which it puts elsewhere, and what tools answered."""
TOLD_IN_ORDER = (
    *("user_message", "message_start", "text_delta", "thinking_delta", "tool_use_start", "tool_use_stop", "message_stop"),
    *("assistant_message", "tool_result_message", "conversation_end", "turn_response", "error", "interrupted"),
)
"""Events whose order the reducer of the client depends on."""
AWAITED = ("message_start", "text_delta", "tool_use_start", "tool_use_stop")
"""Events after which the recorded client did something: it is not done before."""
WORDS = {"role", "subtype", "type", "lifecycle", "exists", "success", "reused"}
"""Members whose value clients depend on."""
FAILED, SAYS_MORE = -32000, (-32602, 404)
"""What the recorded server answers whenever something fails, and how ours tells a wrong request and what is not there."""
ENVELOPES: dict[tuple[str, str], tuple[str, ...]] = {
    ("runtime", "message"): ("user_message", "message_start", "message_delta", "message_stop"),
    ("runtime", "stream"): ("text_delta", "thinking_delta", "input_json_delta", "interrupt", "rewind"),
    ("runtime", "tool"): ("tool_use_start", "tool_use_stop", "tool_result"),
    ("runtime", "error"): ("interrupted", "error", "error_received"),
    ("runtime", "lifecycle"): ("agent_created", "agent_destroyed"),
    ("agent", "message"): ("assistant_message", "tool_result_message", "error_message"),
    ("agent", "state"): (
        *("conversation_start", "conversation_responding", "conversation_end", "tool_planned", "tool_executing"),
        "error_occurred",
    ),
    ("agent", "turn"): ("turn_request", "turn_response"),
}
"""The recorded types of events by source and category, which the transcripts here leave out."""
NAMED = {"instanceId", "imageId", "containerId", "sessionId"}
"""What the recorded context of every event names."""
_KINDS = {kind: envelope for envelope, kinds in ENVELOPES.items() for kind in kinds}
_ID = re.compile(r"(img|sess|inst|msg)_[a-z0-9_]+")

_MODEL = re.compile(r"(claude|gpt)-fake-[a-z0-9]+")


def load(name: str) -> list[Json]:
    return [json.loads(line) for line in (TRANSCRIPTS / name).read_text(encoding="utf-8").splitlines()]


def recorded_model(records: Iterable[Json]) -> Script:
    """A script that gives, call by call, the outputs behind the recorded events."""
    return in_turn(*recorded_calls(records))


def recorded_calls(records: Iterable[Json]) -> list[list[ScriptStep]]:
    """The outputs behind the recorded events, by the call of the model that gave them."""
    calls: list[list[ScriptStep]] = []
    is_text = is_thinking = False
    for record in _told_once(records):
        kind, data = record["event"], record["data"]
        if kind == "message_start":
            calls.append([model.MessageStarted(data["messageId"], data["model"])])
            is_text = is_thinking = False
        elif kind == "error":
            failure = ProviderBadRequest(str(data["message"]))
            if calls and not isinstance(calls[-1][-1], _ENDS):
                calls[-1].append(failure)
            else:
                calls.append([failure])
        elif not calls or isinstance(calls[-1][-1], _ENDS):
            continue
        elif kind == "interrupt":
            calls[-1].append(Pause(anyio.Event()))
        elif kind == "text_delta":
            calls[-1] += [*([] if is_text else [model.TextStarted()]), model.TextChunk(data["text"])]
            is_text = True
        elif kind == "thinking_delta" and data["text"]:
            calls[-1] += [*([] if is_thinking else [model.ThinkingStarted()]), model.ThinkingChunk(data["text"])]
            is_thinking = True
        else:
            if is_text and kind in ("tool_use_start", "message_stop"):
                calls[-1].append(model.TextStopped())
                is_text = False
            calls[-1] += _outputs(kind, data)
    return calls


_ENDS = Pause | ProviderBadRequest | model.MessageStopped


def _told_once(records: Iterable[Json]) -> Iterator[Json]:
    """The events, each once: every connection has heard them."""
    told: Counter[str] = Counter()
    heard: Counter[tuple[str, str]] = Counter()
    for record in records:
        if "event" in record:
            key = json.dumps([record["event"], record["data"], record["session"]])
            # A1 and A2 are connections of one client, one after the other.
            heard[client := record["conn"][0], key] += 1
            if heard[client, key] > told[key]:
                told[key] += 1
                yield record


def _outputs(kind: str, data: Json) -> Iterator[ScriptStep]:
    match kind:
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


@dataclass
class Playing:
    """A transcript being played. `differs` names the answers that differ on purpose, by method and number, with the reason."""

    differs: Mapping[str, str]
    clients: Mapping[str, RpcClient]
    bound: dict[str, str] = field(default_factory=dict)
    methods: dict[tuple[str, object], str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    async def play(self, records: list[Json]) -> None:
        for record in records:
            client = self.clients[record["conn"]]
            if record["dir"] == "c->s":
                await self._send(client, record)
            elif "event" in record:
                if record["event"] in AWAITED and self._is_waiting(record["conn"]):
                    await client.until(record["event"])
                elif record["event"] == "turn_response":
                    await self._end_elsewhere(record["conn"])
            elif isinstance(record.get("json"), dict):
                await self._compare(client, record)

    async def _send(self, client: RpcClient, record: Json) -> None:
        frame = record.get("json")
        if not isinstance(frame, dict):
            await client.socket.send(record.get("text") or json.dumps(frame))
            return
        text = _MODEL.sub("scripted", json.dumps(frame))
        ours = json.loads(_ID.sub(lambda match: self.bound.get(match[0], match[0]), text))
        if frame.get("id") is not None:
            client.marks[frame["id"]] = len(client.events)
            self.methods[record["conn"], frame["id"]] = str(frame.get("method"))
        await client.socket.send(ours)

    async def _end_elsewhere(self, conn: str) -> None:
        """Waits for the turns of connections that were dropped in the recording: they are still open here, and told the end."""
        for (name, number), method in self.methods.items():
            if name != conn and method == "message.send" and number not in self.clients[name].answers:
                await self.clients[name].answer(number)

    def _is_waiting(self, conn: str) -> bool:
        return any(name == conn and number not in self.clients[conn].answers for name, number in self.methods)

    async def _compare(self, client: RpcClient, record: Json) -> None:
        theirs = record["json"]
        name = f"{self.methods.get((record['conn'], theirs['id']), '?')} {theirs['id']}"
        ours = await client.answer(theirs["id"])
        differences = list(self._differences(theirs, ours))
        if name in self.differs:
            self.used.add(name)
            if not differences:
                self.problems.append(f"{name} does not differ any more")
            return
        self.problems += [f"{name}: {difference}" for difference in differences]

    def _differences(self, theirs: Json, ours: Json) -> Iterator[str]:
        is_refused = "error" in theirs and "error" in ours
        codes = [answer["error"]["code"] for answer in (theirs, ours)] if is_refused else []
        if ("result" in theirs) != ("result" in ours) or (codes and not _says_as_much(*codes)):
            yield f"recorded {json.dumps(theirs)[:200]}, ours {json.dumps(ours)[:200]}"
        elif "result" in theirs:
            yield from self._missing(theirs["result"], ours["result"], "")

    def _missing(self, theirs: Any, ours: Any, path: str) -> Iterator[str]:
        """What the recorded value has and ours has not, down to the members of objects; binds ids on the way."""
        if isinstance(theirs, dict) and isinstance(ours, dict):
            for name, value in theirs.items():
                if name in NOT_OURS:
                    continue
                if name not in ours:
                    yield f"{path}.{name} is missing"
                elif name in WORDS and isinstance(value, str | bool) and value != ours[name]:
                    yield f"{path}.{name} is {ours[name]!r}, not {value!r}"
                else:
                    yield from self._missing(value, ours[name], f"{path}.{name}")
        elif isinstance(theirs, list) and isinstance(ours, list):
            if len(theirs) != len(ours):
                yield f"{path} has {len(ours)} items, not {len(theirs)}"
            for number, (one, other) in enumerate(zip(theirs, ours, strict=False)):
                yield from self._missing(one, other, f"{path}[{number}]")
        elif isinstance(theirs, str) and isinstance(ours, str) and _ID.fullmatch(theirs) and _ID.fullmatch(ours):
            self.bound.setdefault(theirs, ours)
        elif type(theirs) is not type(ours):
            yield f"{path} is {ours!r}, not {theirs!r}"


def _says_as_much(theirs: int, ours: int) -> bool:
    return theirs == ours or (theirs == FAILED and ours in SAYS_MORE)


def unlike_recorded(records: Iterable[Json], events: Iterable[Json]) -> Iterator[str]:
    """What events lack of the recorded ones of their type: the envelope, or members that all of these have."""
    members: dict[str, set[str]] = {}
    for record in records:
        if "event" in record:
            members[record["event"]] = members.get(record["event"], set(record["data"])) & set(record["data"])
    for event in events:
        kind, data, context = event["type"], event["data"], set(event["context"])
        if kind == "error" and "sessionId" not in context:
            # A refused message is told by an `error` of our own.
            if not str(event["context"].get("instanceId")).startswith("inst_"):
                yield f"{kind} is one of every conversation: {event}"
            continue
        if kind not in _KINDS:
            continue
        is_of_turn = event["source"] == "runtime" and event["category"] != "lifecycle" and kind not in ("interrupt", "rewind")
        if (event["source"], event["category"], event["intent"]) != (*_KINDS[kind], "notification") or context != NAMED:
            yield f"{kind} has another envelope: {event}"
        if is_of_turn and not str(event.get("requestId")).startswith("req_"):
            yield f"{kind} names no request"
        if lost := members.get(kind, set()) - data.keys():
            yield f"{kind} has no {lost}"


@asynccontextmanager
async def open_playing(records: list[Json], differs: Mapping[str, str]) -> AsyncIterator[Playing]:
    """A server whose model says what was recorded, with a client for each recorded connection."""
    async with AsyncExitStack() as stack:
        _, listener = await stack.enter_async_context(open_listener(ScriptedDriver(recorded_model(records))))
        clients = {}
        for conn in dict.fromkeys(record["conn"] for record in records):
            socket = await stack.enter_async_context(open_socket(listener.app))
            clients[conn] = RpcClient(socket)
        yield Playing(differs, clients)
        for client in clients.values():
            await client.socket.leave()


def order_of(types: Iterable[str]) -> list[str]:
    """The events of a turn that have an order, each repeated one once."""
    ordered: list[str] = []
    for kind in types:
        if kind in TOLD_IN_ORDER and (not ordered or ordered[-1] != kind):
            ordered.append(kind)
    return ordered
