"""MCP agent tool — an agent as a tool: a message begins a turn, its text comes as progress, and its end is the result."""

import hashlib
import re
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import msgspec

from agentvm.errors import NotFound, ToolNotFound, shorten
from agentvm.gateways.agents import ListedAgent, find_agent, list_agents
from agentvm.gateways.mcp.messages import McpCall, read
from agentvm.gateways.mcp.running import RunningCall
from agentvm.gateways.routes import GatewayReply, Lenient
from agentvm.gateways.sse import MEDIA_TYPE, event, stream_parts, write_parts
from agentvm.gateways.talk import SentTurn, Talk
from agentvm.gateways.turn_parts import CallMade, CallWaits, TextAdded, TurnEnded, TurnPart, TurnWaits
from agentvm.model.ids import ContainerId
from agentvm.model.session import Alias
from agentvm.model.usage import NO_USAGE

PREFIX: Final = "ask_"
NAME_MAX: Final = 64
REQUESTS: Final = "mcp.request"
"""The gateway of the aliases that are keys of requests."""
PROGRESS_SECONDS: Final = 0.5
_INNER: Final = re.compile(r"[^A-Za-z0-9_-]")
_DIGEST_CHARACTERS: Final = 8


class AskArguments(Lenient, frozen=True):
    message: str
    session_id: str | None = None


ASK_INPUT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "description": "What to say to the agent."},
        "session_id": {
            "type": "string",
            "description": "The conversation to continue: `sessionId` of an earlier result. A new one begins without it.",
        },
    },
    "required": ["message"],
}
ASK_OUTPUT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "answer": {"type": "string"},
        "sessionId": {"type": "string"},
        "turnId": {"type": "string"},
        "outcome": {"enum": ["completed", "interrupted", "failed", "waiting"]},
        "usage": {"type": "object"},
        "waits": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["answer", "sessionId", "turnId", "outcome", "usage"],
}


def tool_name(agent: str) -> str:
    """Returns the name of an agent's tool: clients take 64 letters, digits, `_` and `-`."""
    name = f"{PREFIX}{_INNER.sub('_', agent)}"
    if name == f"{PREFIX}{agent}" and len(name) <= NAME_MAX:
        return name
    # Two names must not become the same.
    digest = hashlib.sha256(agent.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    return f"{name[: NAME_MAX - _DIGEST_CHARACTERS - 1]}_{digest}"


def ask_tool(agent: ListedAgent) -> dict[str, Any]:
    """Returns an agent as clients list it."""
    return {
        "name": tool_name(agent.name),
        "title": agent.name,
        "description": f"Ask the agent {agent.name}. {agent.description or ''}".strip(),
        "inputSchema": ASK_INPUT,
        "outputSchema": ASK_OUTPUT,
        "annotations": {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False, "openWorldHint": True},
    }


async def agent_of(talk: Talk, tool: str, container_id: ContainerId) -> str:
    """Returns the agent of a tool; `ToolNotFound` when there is none."""
    name = tool.removeprefix(PREFIX)
    if tool_name(name) == tool:
        with suppress(NotFound):
            return (await find_agent(talk, name, container_id)).name
    async for agent in list_agents(talk, container_id):
        if tool_name(agent.name) == tool:
            return agent.name
    raise ToolNotFound(f"Tool not found: {shorten(tool)}")


async def ask_agent(
    talk: Talk,
    call: McpCall,
    agent: str,
    arguments: dict[str, Any],
    container_id: ContainerId,
    key: str | None,
    running: RunningCall,
    *,
    streams: bool,
) -> GatewayReply:
    """Says a message, and answers with the turn. A client that leaves before its end stops the turn, unless it gave a key."""
    question = read(arguments, AskArguments, "arguments")
    if question.session_id is not None:
        session = await talk.session(question.session_id)
    else:
        image = await talk.agent(agent, container_id)
        session = await talk.open(image.image_id, None if key is None else Alias(REQUESTS, key))
    sent = await talk.send(session.session_id, question.message, key=key)
    await running.begin(sent)
    encoder = AskStream(call, sent)

    async def end() -> None:
        await running.end(sent)

    # Whoever gives a key comes back for the answer.
    interrupts = key is None
    if streams:
        streamed = stream_parts(talk, sent, encoder, on_end=end, interrupts=interrupts)
        return GatewayReply(content=streamed, media_type=MEDIA_TYPE)
    await write_parts(talk, sent, encoder, interrupts=interrupts)
    await end()
    return GatewayReply(content=encoder.answer())


class AskStream:
    """Writes a turn as progress, if the client has asked for that, and its result. Also used for a result alone."""

    def __init__(self, call: McpCall, sent: SentTurn, clock: Callable[[], float] = time.monotonic) -> None:
        self._call, self._sent, self._clock = call, sent, clock
        self._token = call.progress_token
        self._texts: list[str] = []
        self._untold: list[str] = []
        self._is_apart = False
        self._progress, self._told_at = 0, float("-inf")
        self._waits: list[CallWaits] = []
        self._ended: TurnEnded | None = None
        self.is_done = False

    def begin(self) -> bytes:
        return b""

    def write(self, part: TurnPart, cursor: int) -> bytes:
        if self.is_done:
            return b""
        match part:
            case TextAdded(text=text):
                if self._is_apart:
                    # What the model says after a call is another paragraph.
                    text, self._is_apart = f"\n\n{text}", False
                self._texts.append(text)
                return self._advance(text, len(text))
            case CallMade(name=name):
                self._is_apart = bool(self._texts)
                return self._advance(f"[{name}]", 1)
            case CallWaits():
                self._waits.append(part)
            case TurnWaits():
                # Somebody else answers, and nobody knows when.
                self.is_done = True
                return event(msgspec.json.encode(self.answer()), "message")
            case TurnEnded():
                self._ended, self.is_done = part, True
                self._waits.clear()
                return event(msgspec.json.encode(self.answer()), "message")
            case _:
                pass
        return b""

    def answer(self) -> dict[str, Any]:
        """Returns the result of the tool."""
        ended, answer = self._ended, "".join(self._texts)
        outcome = "waiting" if ended is None else ended.outcome
        text = answer
        if ended is None:
            names = ", ".join(wait.name for wait in self._waits)
            text = f"{answer}\n\nThe agent waits for an answer: {names}. Its session then continues.".strip()
        elif ended.outcome == "failed":
            text = (ended.error or ("internal_error", "The turn failed"))[1]
        elif ended.outcome == "interrupted":
            text = f"{answer}\n\nThe turn was interrupted.".strip()
        structured = {
            "answer": answer,
            "sessionId": self._sent.session_id,
            "turnId": self._sent.turn_id,
            "outcome": outcome,
            "usage": msgspec.to_builtins(NO_USAGE if ended is None else ended.usage),
        }
        if self._waits:
            structured["waits"] = [wait.wait_id for wait in self._waits]
        is_error = outcome in ("failed", "interrupted")
        return self._call.result(
            {"content": [{"type": "text", "text": text}], "structuredContent": structured, "isError": is_error}
        )

    def _advance(self, text: str, steps: int) -> bytes:
        self._progress += steps
        if self._token is None or not steps:
            return b""
        self._untold.append(text)
        if (now := self._clock()) - self._told_at < PROGRESS_SECONDS:
            return b""
        about = {"progressToken": self._token, "progress": self._progress, "message": "".join(self._untold)}
        self._told_at, self._untold = now, []
        notification = {"jsonrpc": "2.0", "method": "notifications/progress", "params": about}
        return event(msgspec.json.encode(notification), "message")
