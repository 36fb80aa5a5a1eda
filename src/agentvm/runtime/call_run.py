"""Call run — one tool call: its circumstances, its deadline, and the outcome that becomes a result.

A tool that fails, hangs or returns too much gives a result, never the turn's failure.
"""

import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from io import BytesIO
from typing import Protocol

import anyio
import msgspec

from agentvm.errors import AgentVMError, ToolFailed
from agentvm.events.base import Event, EventData
from agentvm.events.tool import ToolAbandoned, ToolProgress
from agentvm.log import get_logger
from agentvm.model.image import Image
from agentvm.model.ledger import LedgerEntry
from agentvm.model.message import ToolCall, UserMessage
from agentvm.model.tier import Placed, Unplaced
from agentvm.runtime.accepted import Accepted
from agentvm.runtime.agent_calls import AgentCalls
from agentvm.runtime.call_files import CallFiles, TurnFiles
from agentvm.runtime.call_knowledge import CallKnowledge
from agentvm.runtime.call_memories import CallMemories
from agentvm.runtime.call_skills import CallSkills
from agentvm.runtime.calls import ToolOutcome
from agentvm.runtime.message_files import read_attached
from agentvm.runtime.open_question import OpenQuestions, QuestionSteps
from agentvm.runtime.ports import Ports
from agentvm.runtime.session_log import SessionLog
from agentvm.runtime.tool_results import ResultKeeper, cut
from agentvm.runtime.tool_task import ProgressReports, ToolTask
from agentvm.runtime.tools import Tool, ToolSet
from agentvm.storage.attachments import Upload
from agentvm.tools.base import (
    ANSWER_TIMEOUT_SECONDS,
    RESULT_MAX_BYTES,
    CallContext,
    Caller,
    CallProgress,
    CallResult,
    ConsentRequired,
    InputRequired,
    OtherTools,
    Outcome,
    Question,
    QuestionAnswer,
    Resumption,
)

_FOREIGN = re.compile(r"[^A-Za-z0-9_.-]")
RESULTS_FOLDER = ".results"
"""The folder of long results among the files of a session."""
MESSAGE_MAX = 500
"""Characters of the message of one report of progress."""

logger = get_logger(__name__)

Ended = ToolOutcome | InputRequired | ConsentRequired
"""The end of a call: its result, or the need of a person, with whose answer it is made again."""


class ProgramTools(OtherTools, Protocol):
    """The tools of a program, which sees the same files in each run."""

    @property
    def tainted(self) -> bool:
        """Whether the program has got untrusted text."""

    async def take_files(self, files: CallFiles) -> None: ...


class CallRun:
    """Runs single calls of one turn."""

    def __init__(
        self,
        ports: Ports,
        image: Image,
        log: SessionLog,
        accepted: Accepted,
        tools: ToolSet,
        tainted: bool,
        questions: QuestionSteps,
    ) -> None:
        self._questions = questions
        self._ports = ports
        self._image = image
        self._log = log
        self._accepted = accepted
        self._tools = tools
        self._tainted = tainted
        """Whether the model has read untrusted text before it asked for the calls."""
        self._limits = ports.settings_of(log.tenant_id).limits
        self._slots = anyio.Semaphore(self._limits.tool_parallel)
        self._made_calls = len(accepted.state.call_ids) - len(accepted.state.pending)
        """Calls of the turn so far."""
        self._files = TurnFiles(ports, log, accepted.bill.user_id)
        self._agents = AgentCalls(ports, image, log, accepted, tainted=tainted, keep=self.keep)
        self.placed: dict[str, Placed | Unplaced] = {}
        """The tiers that ran the code of calls, or why none did."""

    async def run(
        self,
        call: ToolCall,
        resumption: Resumption | None = None,
        *,
        others: ProgramTools | None = None,
        is_nested: bool = False,
        tainted: bool = False,
    ) -> Ended:
        """Makes the call, or makes it again with the answers that it has asked for.

        `others` are the tools that its program may call. A nested call, which a program makes, has its result whole, and runs
        within the bounds of its program.
        """
        tool = self._tools.find(call.name)
        if tool is None:
            return unknown(self._tools, call)
        self._made_calls += not is_nested
        if self._made_calls + len(self._accepted.nested) + self._accepted.others.tool_calls > self._limits.tool_calls:
            return ToolOutcome(f"The call was not made: a turn makes {self._limits.tool_calls} tool calls at most.", True)
        try:
            if faults := self._tools.misfits(call):
                raise ToolFailed(f"The input does not fit: {'; '.join(faults)}")
            if tool.transfers_to is not None:
                return ToolOutcome(f"{tool.spec.name}: done. From here on that agent answers.", False, agent=tool.transfers_to)
            if tool.agent is not None:
                return await self._agents.run(tool, call)
            output_max = RESULT_MAX_BYTES if is_nested else self._limits.tool_output
            running = self._open_call(tool, call, output_max, tainted=self._tainted or tainted)
            async with self._bounds(is_nested), self._files.open(writes=tool.writes_files) as files:
                if others is not None:
                    await others.take_files(files)
                ended = await running.run(files, resumption, others)
                if not isinstance(ended, ToolOutcome):
                    return ended
                tainted = files.tainted or running.tainted or (others is not None and others.tainted)
                changes = files.keep(tainted=self._tainted or tainted or tool.world == "open")
                return replace(ended, files=changes, tainted=tainted)
        except AgentVMError as error:
            return ToolOutcome(cut(str(error), self._limits.tool_output), True)

    def _open_call(self, tool: Tool, call: ToolCall, output_max: int, *, tainted: bool) -> "_Call":
        placed = partial(self.placed.__setitem__, call.id)
        knowledge = CallKnowledge(self._ports, self._image, self._log, self._accepted)
        skills = CallSkills(self._ports.store, self._image, self._log.tenant_id)
        questions = OpenQuestions(self._questions, self._accepted, call, self._ports.clock)
        parts = (placed, questions, knowledge, skills)
        return _Call(self._ports, self._log, self._accepted, tool, call, output_max, *parts, tainted)

    @asynccontextmanager
    async def _bounds(self, is_nested: bool) -> AsyncIterator[None]:
        if is_nested:
            yield
            return
        async with self._slots, self._ports.tool_meter.running(self._log.tenant_id):
            yield

    async def keep(self, call: ToolCall, value: object) -> ToolOutcome:
        """Returns the outcome of a call that a client has answered: its result is kept as that of any tool."""
        tool = self._tools.find(call.name)
        if tool is None:
            return unknown(self._tools, call)
        try:
            async with self._files.open(writes=False) as files:
                running = self._open_call(tool, call, self._limits.tool_output, tainted=self._tainted)
                outcome = await running.keep(_result_of(value), files)
                return replace(outcome, files=files.keep(tainted=self._tainted or tool.world == "open"))
        except AgentVMError as error:
            return ToolOutcome(cut(str(error), self._limits.tool_output), True)


class _Call:
    """One call while it runs."""

    def __init__(
        self,
        ports: Ports,
        log: SessionLog,
        accepted: Accepted,
        tool: Tool,
        call: ToolCall,
        output_max: int,
        placed: Callable[[Placed | Unplaced], None],
        questions: OpenQuestions,
        knowledge: CallKnowledge,
        skills: CallSkills,
        tainted: bool,
    ) -> None:
        self._ports = ports
        self._log = log
        self._accepted = accepted
        self._tool = tool
        self._call = call
        self._output_max = output_max
        self._placed = placed
        self._questions = questions
        self._knowledge, self._skills = knowledge, skills
        settings = ports.settings_of(log.tenant_id)
        remembers = settings.memory.by != "off"
        self._memories = CallMemories(ports, log, accepted, call, tainted=tainted) if remembers else None
        self._limits = settings.limits
        self._reports = ProgressReports(self._publish_progress)
        self._entries: list[LedgerEntry] = []
        self._is_over = False

    @property
    def tainted(self) -> bool:
        """Whether the call has read untrusted text, besides files."""
        return self._knowledge.tainted or self._skills.tainted

    async def run(self, files: CallFiles, resumption: Resumption | None, others: OtherTools | None) -> Ended:
        tool, limits = self._tool, self._limits
        context = self._context(files, resumption, others)
        task: ToolTask[Outcome] = ToolTask(
            self._call.name,
            partial(make, tool, self._call, context),
            timeout_seconds=tool.timeout_seconds,
            seconds_max=limits.tool_seconds,
            on_abandoned=self._log_abandoned,
        )
        self._extend = task.extend
        try:
            async with self._closing():
                outcome = await task.run()
                if isinstance(outcome, CallResult):
                    return self._charged(await self.keep(outcome, files))
                self._post_charges()
                return outcome
        except (AgentVMError, TimeoutError) as error:
            files.discard()
            late = f"{self._call.name} did not finish within {min(tool.timeout_seconds, limits.tool_seconds):g} seconds"
            text = str(error) if isinstance(error, AgentVMError) else late
            return self._charged(ToolOutcome(cut(text, limits.tool_output), True))

    async def keep(self, result: CallResult, files: CallFiles) -> ToolOutcome:
        """Returns the outcome of a result. A text too long for the model is kept whole among the files of the session."""
        return await ResultKeeper(
            name=self._call.name,
            owner=self._log.tenant_id,
            output_max=self._output_max,
            file_max_bytes=self._limits.attachment_bytes,
            store=self._store_file,
            spill=partial(self._spill, files),
            output_schema=self._tool.output_schema,
        ).keep(result)

    async def _spill(self, files: CallFiles, body: bytes) -> str | None:
        name = _FOREIGN.sub("_", self._call.id)[:100]
        try:
            return f"/workspace/{(await files.write(f'{RESULTS_FOLDER}/{name}', body)).path}"
        except AgentVMError as error:
            logger.info("result_not_spilled", tool=self._call.name, error=str(error))
            return None

    @asynccontextmanager
    async def _closing(self) -> AsyncIterator[None]:
        """Ends the progress of the call, and settles its usage if its outcome is not used."""
        began = anyio.current_time()
        try:
            yield
        except anyio.get_cancelled_exc_class():
            self._post_charges()
            raise
        finally:
            self._is_over = True
            self._questions.close()
            self._reports.close()
            self._accepted.tool_seconds += anyio.current_time() - began

    def _context(self, files: CallFiles, resumption: Resumption | None, others: OtherTools | None) -> CallContext:
        """The key is the same after a restart: a server can recognise a call that is made again."""
        return CallContext(
            key=f"{self._accepted.state.turn_id}/{self._call.id}",
            caller=Caller(self._log.tenant_id, self._accepted.bill.user_id or ""),
            deadline=anyio.current_time() + min(self._tool.timeout_seconds, self._limits.tool_seconds),
            progress=self._hear_progress,
            ask=self._ask_person,
            resumption=resumption,
            charge=self._charge,
            session=self._log.session_id,
            placed=self._placed,
            others=others,
            files=files,
            inputs=self._read_inputs,
            memory=self._memories,
            knowledge=self._knowledge.search if self._knowledge else None,
            skills=self._skills.load if self._skills else None,
            skill_files=self._skills.files if self._skills else None,
        )

    async def _ask_person(self, question: Question) -> QuestionAnswer:
        """Asks a person while the call is held open, which is no time of the tool."""
        self._extend(ANSWER_TIMEOUT_SECONDS)
        try:
            return await self._questions.ask(question)
        finally:
            self._extend()

    async def _read_inputs(self, max_bytes: int) -> Mapping[str, bytes]:
        """Returns the files attached to the message that the turn answers."""
        log, message_id = self._log, self._accepted.state.user_message_id
        history = await self._ports.recall(log.tenant_id, log.container_id, log.session_id, message_id)
        store = self._ports.store.tenant(log.tenant_id).container(log.container_id).attachments
        messages = (message for message in history.messages if message.id == message_id)
        content = next((message.content for message in messages if isinstance(message, UserMessage)), "")
        return await read_attached(store, content, max_bytes)

    async def _store_file(self, data: bytes, media_type: str, name: str | None) -> str:
        """Stores a file before the message that refers to it; a file that no message refers to is collected later."""
        log, user_id = self._log, self._accepted.bill.user_id
        files = self._ports.store.tenant(log.tenant_id).container(log.container_id).attachments
        await self._ports.admit_bytes(log.tenant_id, user_id, len(data))
        upload = Upload(media_type=media_type, name=name, uploaded_by=user_id)
        attachment, _ = await files.add(BytesIO(data), upload, self._ports.clock())
        return attachment.digest

    def _hear_progress(self, progress: CallProgress) -> None:
        if not self._is_over:
            self._extend()
            self._reports.report(progress)

    def _publish_progress(self, progress: CallProgress) -> None:
        event = ToolProgress(
            turn_id=self._accepted.state.turn_id,
            tool_id=self._call.id,
            tool_name=self._call.name,
            progress=progress.progress,
            total=progress.total,
            message=None if progress.message is None else cut(progress.message, MESSAGE_MAX),
        )
        self._post(event)

    def _log_abandoned(self) -> None:
        data = ToolAbandoned(tool_id=self._call.id, tool_name=self._call.name)
        scope, at = self._accepted.scope, self._ports.clock()
        self._ports.broadcast([Event(data=data, scope=scope, timestamp=at, tenant_id=self._log.tenant_id)])

    def _post(self, *events: EventData) -> None:
        if events:
            self._ports.journal.post(self._log, events, self._accepted.scope)

    def _charge(self, entry: LedgerEntry) -> None:
        entry = self._of_turn(entry)
        if not self._is_over:
            self._entries.append(entry)
            return
        # Of a tool that was abandoned: its turn may have ended.
        ledger = self._ports.store.accounts(self._log.tenant_id).ledger
        self._ports.tasks.start_soon(ledger.add, [entry])

    def _of_turn(self, entry: LedgerEntry) -> LedgerEntry:
        """Returns the entry with its turn.

        The ledger takes each key once, and a call may run several jobs: a program is run again after each wait, and after a
        restart the number is unknown. So every job but the first has a key of its own.
        """
        log, accepted, key = self._log, self._accepted, entry.key
        if accepted.resumed or key in accepted.charged:
            key = f"{key}#{self._ports.new_id('job')}"
        accepted.charged.add(entry.key)
        return msgspec.structs.replace(
            entry,
            key=key,
            container_id=log.container_id,
            image_id=accepted.scope.image_id or entry.image_id,
            session_id=log.session_id,
            turn_id=accepted.state.turn_id,
        )

    def _post_charges(self) -> None:
        self._post(*(self._accepted.bill.charge(entry) for entry in self._entries))

    def _charged(self, outcome: ToolOutcome) -> ToolOutcome:
        """Returns the outcome with the ledger's entries, which are committed with it."""
        return replace(outcome, charges=tuple(self._accepted.bill.charge(entry) for entry in self._entries))


def unknown(tools: ToolSet, call: ToolCall) -> ToolOutcome:
    names = ", ".join(tools.names) or "none"
    return ToolOutcome(f"there is no tool named {call.name!r}; available: {names}", True)


async def make(tool: Tool, call: ToolCall, context: CallContext) -> Outcome:
    if tool.call is not None:
        return await tool.call(call.input, context)
    return _result_of(await tool.run(call.input))


def _result_of(value: object) -> CallResult:
    """Returns a result; any JSON value is one, and a function may give pictures and files as a `CallResult`."""
    return (
        value if isinstance(value, CallResult) else CallResult(type="text" if isinstance(value, str) else "json", value=value)
    )
