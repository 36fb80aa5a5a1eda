"""Call run — one tool call: its circumstances, its deadline, and the outcome that becomes a result.

A tool that fails, hangs or returns too much gives a result, never the turn's failure.
"""

import math
from dataclasses import replace
from functools import partial
from typing import Protocol

import anyio
import msgspec

from agentvm.errors import ToolFailed
from agentvm.log import get_logger
from agentvm.model.message import ToolCall, repair_text
from agentvm.model.tier import Placed, Unplaced
from agentvm.resources.schema import misfits
from agentvm.runtime.accepted import Accepted
from agentvm.runtime.call_files import CallFiles, TurnFiles
from agentvm.runtime.calls import ToolOutcome
from agentvm.runtime.ports import Ports
from agentvm.runtime.session_log import SessionLog
from agentvm.runtime.tools import Tool, ToolSet
from agentvm.tools.base import (
    RESULT_MAX_BYTES,
    CallContext,
    Caller,
    CallResult,
    ConsentRequired,
    InputRequired,
    OtherTools,
    ResultFile,
    ResultImage,
    ResultLink,
    ResultPart,
    ResultText,
    Resumption,
)

logger = get_logger(__name__)

Ended = ToolOutcome | InputRequired | ConsentRequired
"""The end of a call: its result, or the need of a person, with whose answer it is made again."""


class ProgramTools(OtherTools, Protocol):
    """The tools of a program, which sees the same files in each run."""

    async def take_files(self, files: CallFiles) -> None: ...


class CallRun:
    """Runs single calls of one turn."""

    def __init__(self, ports: Ports, log: SessionLog, accepted: Accepted, tools: ToolSet) -> None:
        self._ports = ports
        self._log = log
        self._accepted = accepted
        self._tools = tools
        self._limits = ports.settings_of(log.tenant_id).limits
        self._files = TurnFiles(ports, log, accepted.bill.user_id)
        self.placed: dict[str, Placed | Unplaced] = {}
        """The tiers that ran the code of calls, or why none did."""

    async def run(
        self,
        call: ToolCall,
        resumption: Resumption | None = None,
        *,
        others: ProgramTools | None = None,
        is_nested: bool = False,
    ) -> Ended:
        """Makes the call, or makes it again with the answers that it has asked for.

        `others` are the tools that its program may call. A nested call, which a program makes, has its result whole.
        """
        tool = self._tools.find(call.name)
        output_max = RESULT_MAX_BYTES if is_nested else self._limits.tool_output
        async with self._files.open(writes=tool is not None and tool.writes_files) as files:
            if others is not None:
                await others.take_files(files)
            ended = await self._run(call, replace(self._context(call, resumption, files), others=others), output_max)
            return replace(ended, files=files.keep()) if isinstance(ended, ToolOutcome) else ended

    async def _run(self, call: ToolCall, context: CallContext, output_max: int) -> Ended:
        try:
            return await run_call(self._tools, call, context, output_max=output_max)
        except Exception:  # Protects the turn: the model can go on without this result.
            logger.exception("tool_crashed", tool=call.name, session_id=self._log.session_id)
            return ToolOutcome(f"{call.name} failed because of an internal error", True)

    def _context(self, call: ToolCall, resumption: Resumption | None, files: CallFiles) -> CallContext:
        """The key is the same after a restart: a server can recognise a call that is made again."""
        return CallContext(
            key=f"{self._accepted.state.turn_id}/{call.id}",
            caller=Caller(self._log.tenant_id, self._accepted.bill.user_id or ""),
            deadline=anyio.current_time() + self._tools.timeout_seconds(call.name),
            resumption=resumption,
            session=self._log.session_id,
            files=files,
            placed=partial(self.placed.__setitem__, call.id),
        )


async def run_call(tools: ToolSet, call: ToolCall, context: CallContext, *, output_max: int) -> Ended:
    """Runs a call; of its result at most `output_max` characters are kept."""
    tool = tools.find(call.name)
    if tool is None:
        names = ", ".join(tools.names) or "none"
        return ToolOutcome(f"there is no tool named {call.name!r}; available: {names}", True)
    if tool.call is not None and (faults := misfits("input", tool.spec.input_schema, call.input)):
        return ToolOutcome(_cut(f"The input does not fit: {'; '.join(map(str, faults))}", output_max), True)
    try:
        with anyio.fail_after(tool.timeout_seconds):
            return await _outcome(tool, call, context, output_max)
    except ToolFailed as error:
        return ToolOutcome(_cut(str(error), output_max), True)
    except TimeoutError:
        return ToolOutcome(f"{call.name} did not finish within {tool.timeout_seconds:g} seconds", True)
    except SystemExit:
        # It would end the server.
        return ToolOutcome(f"{call.name} tried to end its process", True)
    except anyio.get_cancelled_exc_class():
        if anyio.current_effective_deadline() == -math.inf:
            raise
        # Not the turn was cancelled, but something the tool waited for; passed on, it would end the calls beside it.
        return ToolOutcome(f"{call.name} was cancelled from within", True)


async def _outcome(tool: Tool, call: ToolCall, context: CallContext, output_max: int) -> Ended:
    if tool.call is None:
        return limit_result(call.name, await tool.run(call.input), output_max)
    outcome = await tool.call(call.input, context)
    if isinstance(outcome, CallResult):
        return limit_result(call.name, _shown(outcome), output_max)
    return outcome


def _shown(outcome: CallResult) -> object:
    """Returns the JSON value that the model is told; `ToolFailed` for a result that is an error."""
    match outcome:
        case CallResult(type="text" | "json", value=value):
            return value
        case CallResult(type="content", parts=parts):
            return "\n".join(map(_shown_part, parts))
        case CallResult(value=value):
            raise ToolFailed(value if isinstance(value, str) else msgspec.json.encode(value).decode())


def _shown_part(part: ResultPart) -> str:
    match part:
        case ResultText(text=text):
            return text
        case ResultLink(uri=uri):
            return uri
        case ResultImage(data=data, media_type=media_type) | ResultFile(data=data, media_type=media_type):
            return f"[{media_type}, {len(data)} bytes: only text is passed to the model]"


def limit_result(name: str, result: object, output_max: int) -> ToolOutcome:
    """Returns at most `output_max` characters of a result. Whether it is JSON is checked here: it could fail the turn."""
    if isinstance(result, str):
        return ToolOutcome(_cut(result, output_max), False)
    try:
        body = msgspec.json.encode(result)
    except (TypeError, ValueError, RecursionError) as error:
        return ToolOutcome(f"{name} gave a result that is no JSON: {type(error).__name__}", True)
    return ToolOutcome(result if len(body) <= output_max else _cut(body.decode(), output_max), False)


def _cut(text: str, output_max: int) -> str:
    """Returns as much of the text as is kept, as text that JSON can carry; a note says what is missing."""
    if len(text) <= output_max:
        return repair_text(text)
    return f"{repair_text(text[:output_max])}\n[cut off: the result has {len(text)} characters]"
