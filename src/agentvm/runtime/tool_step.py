"""Tool step — the tool calls of one step of a turn: applies the rules, runs them concurrently, holds those that must wait.

A call that needs an approval, that the client runs, or whose tool needs a person becomes a wait: a row. Its siblings run in the
meantime. When only waits are left the turn is parked: it leaves memory, and continues with the first answer, in this process or
another.
"""

from collections.abc import Sequence
from dataclasses import replace

import anyio
import anyio.lowlevel
import msgspec
from anyio.streams.memory import MemoryObjectSendStream

from agentvm.events.base import EventData
from agentvm.events.state import ConversationEnd
from agentvm.events.tool import AgentSwitched, ProgramChanged, ToolPlaced, ToolStarted, WaitChanged
from agentvm.events.turn import TurnParked
from agentvm.model.ids import sub_session_id
from agentvm.model.image import Image
from agentvm.model.message import TextPart, ToolCall
from agentvm.model.placed_call import placed_call
from agentvm.model.program import ProgramCall, ProgramEnded
from agentvm.model.tier import Placed
from agentvm.model.wait import ROUNDS_MAX, StartedWait, ToolWait, WaitKind
from agentvm.runtime import calls, open_question, turn
from agentvm.runtime.accepted import Accepted
from agentvm.runtime.call_run import CallRun, Ended
from agentvm.runtime.calls import Action, Held, Run, ToolOutcome
from agentvm.runtime.handoff import agent_name
from agentvm.runtime.policy import CallFacts, Verdict, decide
from agentvm.runtime.ports import Ports
from agentvm.runtime.programs import Program
from agentvm.runtime.session_log import SessionLog
from agentvm.runtime.sub_agents import ENDED, has_ended, scope_at_root
from agentvm.runtime.tasks import open_tasks
from agentvm.runtime.tools import ToolSet
from agentvm.runtime.waiting import Waiting, answer_events, denied_event, waiting_events
from agentvm.tools.base import ANSWER_TIMEOUT_SECONDS, ConsentRequired, InputRequired, Question

_INLINE = Placed(tier="inline")
NAMED_WAITS_MAX = 100
"""Waits of sub-agents that the event of a parked turn names."""
_Done = tuple[ToolCall, Run | ToolOutcome, Ended | None]
"""A call, its run or outcome, and its end."""


class CallRunner:
    """The calls that the model has asked for last, until each has its result or waits."""

    def __init__(self, ports: Ports, image: Image, log: SessionLog, accepted: Accepted, tools: ToolSet, tainted: bool) -> None:
        self._ports = ports
        self._image = image
        self._log = log
        self._accepted = accepted
        self._tools = tools
        self._tainted = tainted
        self._call_run = CallRun(ports, image, log, accepted, tools, tainted, questions=self)
        self._waiting = Waiting(log.container_id, log.session_id, accepted)
        self._announced = {wait.wait_id for wait in accepted.waits.values()}
        """Waits that people know of."""
        self._policy: dict[str, str] = {}
        """The reason of the decision about each call."""

    async def run(self) -> None:
        """Returns when every call has a result, or when the turn is parked because some wait."""
        accepted = self._accepted
        while accepted.state.pending:
            accepted.answered = False
            actions = [(call, await self._next(call)) for call in accepted.state.pending]
            await self.announce(actions)
            await self._publish_at_root(_waits_of(actions))
            due = [(call, action) for call, action in actions if not isinstance(action, Held)]
            if due:
                await self._execute(due)
            elif not (accepted.answering or self._is_answered(held := _waits_of(actions)) or await self._take_ended(held)):
                await self._park(held)
                return
            # The next prompt is made from the history: the results must be in it.
            await self.flush()

    def _is_answered(self, waits: Sequence[ToolWait]) -> bool:
        return any(self._accepted.waits[wait.call_id].answer is not None for wait in waits)

    async def _take_ended(self, waits: Sequence[ToolWait]) -> bool:
        """Answers the waits for sub-agents that have ended before these waits were stored; whether there are any."""
        is_answered, at = False, self._ports.clock()
        for wait in waits:
            if await has_ended(self._ports, self._log.tenant_id, wait):
                self.post(*answer_events(wait, ENDED, None, at))
                self._accepted.waits[wait.call_id] = msgspec.structs.replace(wait, answer=ENDED, answered_at=at)
                is_answered = True
        return is_answered

    async def _publish_at_root(self, waits: Sequence[ToolWait]) -> None:
        """Shows new waits of a sub-agent at the top, too."""
        scope = scope_at_root(self._accepted.scope, self._accepted.origin)
        new = [wait for wait in waits if wait.wait_id not in self._announced]
        self._announced.update(wait.wait_id for wait in new)
        if scope is not None and new:
            events = [data for wait in new for data in waiting_events(wait)]
            await self._ports.sub_agents.publish_at_root(self._ports, self._log, scope, events)

    async def lose(self) -> None:
        """Creates results for the calls that may have been running when the process ended; the others remain."""
        for call in self._accepted.state.pending:
            may_repeat = self._tools.may_repeat(call.name) or call.id in self._accepted.waits
            if not may_repeat and call.id in self._accepted.started:
                self._finish(call, ToolOutcome(calls.LOST, True))
        await self.flush()

    async def _next(self, call: ToolCall) -> Action:
        """Returns the next step of a call of the model; a program waits as long as a call of it does."""
        wait = self._accepted.open_wait(call.id)
        return await self.decide(call) if wait is None else Held(wait)

    async def decide(self, call: ToolCall, *, tainted: bool = False) -> Action:
        """Returns the next step of a call, of the model or of a program."""
        wait = self._accepted.waits.get(call.id)
        if wait is not None:
            self._policy.setdefault(call.id, wait.why)
            action = calls.resume(call, wait, repeatable=self._tools.may_repeat(call.name))
            if wait.kind == "child" and isinstance(action, ToolOutcome):
                turn_id = self._accepted.state.turn_id
                await self._ports.sub_agents.stop_called(self._ports, self._log.tenant_id, self._image, turn_id, call.id)
            if isinstance(action, ToolOutcome) and not action.is_error:
                return await self._call_run.keep(call, action.result)
            return await self._still_allowed(action, tainted=tainted) if isinstance(action, Run) else action
        if call.problem is not None:
            return ToolOutcome(call.problem, True)
        facts = self._facts(call, tainted=tainted)
        if facts is None:
            # It fails by itself, with a text that helps the model.
            return Run(call)
        verdict = await self._verdict(facts)
        self._policy[call.id] = verdict.why
        first = calls.begin(call, verdict, self._tools.waits_for(call.name))
        if isinstance(first, Run | ToolOutcome):
            return first
        if facts.unattended:
            # The client that would run it, or the person who would answer, is not there.
            return ToolOutcome(calls.NOBODY_TO_ASK, True, is_denied=True)
        return self._hold(call, facts, first, verdict, None if first == "approval" else self._tools.timeout_seconds(call.name))

    async def _still_allowed(self, run: Run, *, tainted: bool) -> Action:
        """Returns the call that was answered, or its denial by a rule that was set while it waited."""
        facts = self._facts(run.call, tainted=tainted)
        if facts is None or (run.wait is not None and run.wait.started_at is not None):
            return run
        verdict = await self._verdict(facts)
        if verdict.do != "deny":
            return run
        self._policy[run.call.id] = verdict.why
        return ToolOutcome(calls.denied(verdict.why), True, is_denied=True)

    def _facts(self, call: ToolCall, *, tainted: bool = False) -> CallFacts | None:
        facts = self._tools.facts(call, tainted=self._tainted or tainted)
        return facts if facts is None or not self._accepted.unattended else replace(facts, unattended=True)

    def _hold(self, call: ToolCall, facts: CallFacts, kind: WaitKind, verdict: Verdict, seconds: float | None = None) -> Held:
        wait_id, at = self._ports.new_id("wait"), self._ports.clock()
        return Held(self._waiting.hold(wait_id, at, call, facts, kind, verdict, seconds))

    async def _verdict(self, facts: CallFacts) -> Verdict:
        log = self._log
        layers = (*self._ports.policy(log.tenant_id, self._image), *self._accepted.skill_rules)
        verdict = decide(facts, layers)
        if verdict.do != "ask" or not verdict.approval.remember:
            return verdict
        waits = self._ports.store.tenant(log.tenant_id).waits((log.container_id,))
        if await waits.is_remembered(self._image.image_id, log.session_id, facts.tool, facts.version):
            return decide(facts, layers, {(facts.tool, facts.version)})
        return verdict

    async def announce(self, actions: Sequence[tuple[ToolCall, Action]]) -> None:
        """Commits the waits and the calls that are about to run: the effect of a tool cannot be undone."""
        at, accepted, events = self._ports.clock(), self._accepted, list[EventData]()
        for call, action in actions:
            match action:
                case Held(wait=wait) if wait.call_id not in accepted.waits:
                    accepted.waits[wait.call_id] = wait
                    events += waiting_events(wait)
                case Run(wait=wait):
                    if wait is not None:
                        accepted.waits[call.id] = msgspec.structs.replace(wait, started_at=at)
                        events.append(WaitChanged(change=StartedWait(wait_id=wait.wait_id, at=at)))
                    if wait is not None or not self._tools.may_repeat(call.name):
                        events.append(ToolStarted(turn_id=accepted.state.turn_id, tool_id=call.id, tool_name=call.name))
                case _:
                    pass
        self.post(*events)
        await self.flush()
        # A tool that never waits would run to its end in a turn that was stopped meanwhile.
        await anyio.lowlevel.checkpoint_if_cancelled()
        accepted.started |= {call.id for call, action in actions if isinstance(action, Run)}

    async def _park(self, waits: Sequence[ToolWait]) -> None:
        accepted, now = self._accepted, self._accepted.state
        parked = TurnParked(
            turn_id=now.turn_id,
            message_id=now.user_message_id,
            waits=tuple(wait.wait_id for wait in await self._answerable(waits)),
            active=accepted.active_ms(),
            timestamp=self._ports.clock(),
        )
        # User interfaces of 1.x accept the next message only after the end of the conversation.
        await self._ports.journal.emit(self._log, (ConversationEnd(reason="completed"), parked), accepted.scope)
        accepted.parked = True

    async def _answerable(self, waits: Sequence[ToolWait]) -> Sequence[ToolWait]:
        """Returns the waits that people can answer: instead of one for a sub-agent those of the sub-agents below."""
        if all(wait.kind != "child" for wait in waits):
            return waits
        log = self._log
        store = self._ports.store.tenant(log.tenant_id).waits((log.container_id,))
        page = await store.list_page(session_id=log.session_id, state="open", after=0, limit=NAMED_WAITS_MAX)
        return [wait for _, wait in page] or waits

    async def _execute(self, actions: Sequence[tuple[ToolCall, Run | ToolOutcome]]) -> None:
        """Runs the calls side by side. Results are sent as they arrive."""
        done, results = anyio.create_memory_object_stream[_Done](len(actions))
        with done, results:
            try:
                async with open_tasks() as tasks:
                    for call, action in actions:
                        tasks.start_soon(self._carry_out_one, call, action, done)
                    for _ in actions:
                        self._take(*await results.receive())
                        if self._ports.journal.crowded:
                            await self.flush()
            except anyio.get_cancelled_exc_class():
                # Calls that ended in the moment in which the turn was stopped have their results all the same.
                while results.statistics().current_buffer_used:
                    call, _, ended = results.receive_nowait()
                    if isinstance(ended, ToolOutcome):
                        self._finish(call, ended)
                raise

    def _take(self, call: ToolCall, action: Run | ToolOutcome, ended: Ended | None) -> None:
        if isinstance(ended, InputRequired | ConsentRequired) and isinstance(action, Run):
            ended = self.ask(action, ended)
        if isinstance(ended, ToolOutcome):
            self._finish(call, ended)

    async def _carry_out_one(self, call: ToolCall, action: Run | ToolOutcome, done: "MemoryObjectSendStream[_Done]") -> None:
        ended: Ended | None
        match action:
            case ToolOutcome():
                ended = action
            case Run(call=to_run, note=note):
                ended = await self._run(action)
                if note is not None and isinstance(ended, ToolOutcome):
                    ended = _noted(ended, note, to_run.input)
        # Without a moment in which a stop could lose the result.
        done.send_nowait((call, action, ended))

    async def _run(self, run: Run) -> Ended | None:
        """Makes a call; None for a program that was stopped because a call of it has to wait."""
        call, accepted = run.call, self._accepted
        tools = self._tools.callable_by(call.name)
        if not tools:
            return await self._call_run.run(call, run.resumption)
        program = Program(self, accepted, call, tools, await self._read_journal(call.id))
        accepted.programs.add(call.id)
        ended: Ended = ToolOutcome("", True)
        try:
            with program.scope:
                ended = await self._call_run.run(call, run.resumption, others=program)
        finally:
            program.close()
        if program.is_held:
            return None
        return program.outcome(ended) if isinstance(ended, ToolOutcome) else ended

    async def _read_journal(self, call_id: str) -> tuple[ProgramCall, ...]:
        """Returns the results of a program that has run before."""
        accepted, log = self._accepted, self._log
        if not (accepted.resumed or call_id in accepted.programs):
            return ()
        await self.flush()
        store = self._ports.store.tenant(log.tenant_id).container(log.container_id).log(log.session_id)
        return await store.list_program(accepted.state.turn_id, call_id)

    async def make(self, run: Run, *, tainted: bool) -> Ended:
        """Makes a call of a program, which may have got untrusted text."""
        self._accepted.started.add(run.call.id)
        return await self._call_run.run(run.call, run.resumption, is_nested=True, tainted=tainted)

    def ask(self, run: Run, needs: InputRequired | ConsentRequired) -> ToolOutcome | None:
        """Holds a call whose tool needs a person: it waits once more. Returns its outcome if no person can answer."""
        call = run.call
        facts = self._facts(call)
        needs_somebody = not (isinstance(needs, InputRequired) and needs.kind in ("timer", "child"))
        if facts is None or (facts.unattended and needs_somebody):
            return ToolOutcome(calls.NOBODY_TO_ASK, True, is_denied=True)
        wait = self._waiting.ask(self._ports.new_id("wait"), self._ports.clock(), run, facts, needs)
        if wait.round >= ROUNDS_MAX:
            return ToolOutcome(calls.ASKS_TOO_OFTEN, True)
        self._accepted.waits[call.id] = wait
        self._accepted.started.discard(call.id)
        self.post(*waiting_events(wait))
        return None

    def hold_open(self, call: ToolCall, question: Question) -> ToolWait | None:
        """Opens the wait for a question of a call that runs; None where no person can answer."""
        facts, at, before = self._facts(call), self._ports.clock(), self._accepted.waits.get(call.id)
        if facts is None or facts.unattended:
            return None
        needs = InputRequired(questions={open_question.KEY: question}, until=at + int(ANSWER_TIMEOUT_SECONDS * 1000))
        note = calls.EDITED if before is not None and (before.is_edited or (before.answer and before.answer.input)) else None
        wait = self._waiting.ask(self._ports.new_id("wait"), at, Run(call, note=note), facts, needs)
        if wait.round >= ROUNDS_MAX:
            return None
        # After a crash it is a call that had begun.
        wait = self._accepted.waits[call.id] = msgspec.structs.replace(wait, held=True, started_at=at)
        return wait

    async def announce_wait(self, wait: ToolWait) -> None:
        """Stores the wait of a call that runs, and tells people of it."""
        self.post(*waiting_events(wait), WaitChanged(change=StartedWait(wait_id=wait.wait_id, at=wait.asked_at)))
        await self.flush()
        await self._publish_at_root([wait])

    def post_end(self, *events: EventData) -> None:
        """Lets the end of a wait be stored and sent soon, also while the turn is being stopped."""
        self._ports.journal.post(self._log, events, self._accepted.scope)

    def may_repeat(self, name: str) -> bool:
        """Returns whether a call of the tool may be made twice."""
        return self._tools.may_repeat(name)

    def is_open(self, call: ToolCall) -> bool:
        """Returns whether results of the call are untrusted text."""
        facts = self._tools.facts(call)
        return facts is not None and facts.world == "open"

    def post(self, *events: EventData) -> None:
        """Lets events of the turn be committed and sent soon."""
        if events:
            self._accepted.note_commit(self._ports.journal.post(self._log, events, self._accepted.scope), by_model=False)

    def _finish(self, call: ToolCall, outcome: ToolOutcome) -> None:
        accepted = self._accepted
        tainted = outcome.tainted or (self.is_open(call) and not outcome.is_denied)
        waiting = next(pending for pending in accepted.state.pending if pending.id == call.id)
        rest = tuple(pending for pending in accepted.state.pending if pending.id != call.id)
        now = msgspec.structs.replace(accepted.state, pending=rest)
        state, finished = turn.tool_finished(now, call, outcome, self._ports.clock(), tainted=tainted)
        events = (denied_event(accepted, call, outcome), *finished) if outcome.is_denied else finished
        events = (*events, self.explain(call, outcome))
        if outcome.agent is not None:
            accepted.switched = True
            events = (
                *events,
                AgentSwitched(turn_id=now.turn_id, agent=outcome.agent, name=agent_name(self._image, outcome.agent)),
            )
        if call.id in accepted.programs:
            events = (*events, ProgramChanged(change=ProgramEnded(turn_id=now.turn_id, program=call.id)))
        accepted.results.append((self._ports.journal.post(self._log, events, accepted.scope), waiting, events))
        accepted.state = state

    def explain(self, call: ToolCall, outcome: ToolOutcome, *, is_nested: bool = False) -> EventData:
        """Returns why the call was decided as it was, and where it ran: in this process, unless a tier has run its code."""
        inline = None if outcome.is_denied or call.id not in self._accepted.started else _INLINE
        placed = self._call_run.placed.get(call.id, inline)
        why = self._policy.get(call.id, "")
        reasons = placed_call(self._accepted.state.turn_id, call.id, call.name, why, placed)
        tool_ms = int(self._accepted.tool_seconds * 1000)
        tool = self._tools.find(call.name)
        by_agent = tool is not None and tool.agent is not None and call.id in self._accepted.started
        session_id = sub_session_id(reasons.turn_id, call.id) if by_agent else None
        whole = msgspec.structs.replace(reasons, tool_ms=tool_ms, is_nested=is_nested, session_id=session_id)
        return ToolPlaced(call=whole)

    async def flush(self) -> None:
        await self._accepted.settle(self._ports, self._log)
        self._accepted.commits.clear()
        self._accepted.results.clear()


def _noted(outcome: ToolOutcome, note: str, values: dict[str, object]) -> ToolOutcome:
    """Returns the outcome of a call whose input a person has changed: the model receives a note with the result."""
    edited: dict[str, object] = {"note": note, "input": values}
    if outcome.parts:
        return replace(outcome, parts=(TextPart(text=msgspec.json.encode(edited).decode()), *outcome.parts))
    return replace(outcome, result={**edited, "result": outcome.result})


def _waits_of(actions: Sequence[tuple[ToolCall, Action]]) -> list[ToolWait]:
    return [action.wait for _, action in actions if isinstance(action, Held)]
