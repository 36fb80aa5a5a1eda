"""Tool step — the tool calls of one step of a turn: decided, run side by side, and those that must wait for somebody held.

A call that needs an approval, or that the client runs, becomes a wait: a row. Its siblings run meanwhile. When only waits are
left the turn is parked: it leaves memory, and goes on with the first answer, in this process or another.
"""

from collections.abc import Mapping, Sequence

import anyio
import anyio.abc
import msgspec

from agentvm.events.base import EventData
from agentvm.events.state import ConversationEnd
from agentvm.events.tool import ToolAnswered, ToolStarted, ToolWaiting, WaitChanged
from agentvm.events.turn import TurnParked
from agentvm.model.ids import UserId
from agentvm.model.image import Image
from agentvm.model.message import ToolCall
from agentvm.model.wait import AnsweredWait, StartedWait, ToolWait, WaitAnswer, WaitId, WaitKind, fingerprint_of
from agentvm.runtime import calls, turn
from agentvm.runtime.accepted import Accepted
from agentvm.runtime.call_run import CallRun, limit_result
from agentvm.runtime.calls import Action, Held, PendingCall, Run, ToolOutcome
from agentvm.runtime.policy import CallFacts, Verdict, decide
from agentvm.runtime.ports import Ports
from agentvm.runtime.session_log import SessionLog
from agentvm.runtime.tasks import open_tasks
from agentvm.runtime.tools import ToolSet


class CallRunner:
    """The calls that the model has asked for last, until each has its result or waits."""

    def __init__(self, ports: Ports, image: Image, log: SessionLog, accepted: Accepted, tools: ToolSet, tainted: bool) -> None:
        self._ports = ports
        self._image = image
        self._log = log
        self._accepted = accepted
        self._tools = tools
        self._tainted = tainted
        self._limits = ports.settings_of(log.tenant_id).limits
        self._call_run = CallRun(ports, log, accepted, tools)

    async def run(self) -> None:
        """Returns when every call has a result, or when the turn is parked because some wait."""
        accepted = self._accepted
        while accepted.state.pending:
            accepted.answered = False
            actions = [(pending, await self._decide(pending)) for pending in accepted.state.pending]
            await self._announce([action for _, action in actions])
            held = tuple(pending for pending, action in actions if isinstance(action, Held))
            accepted.state = msgspec.structs.replace(accepted.state, pending=held)
            if accepted.answering or any(self._is_answered(pending.call) for pending in held):
                await self._flush()
            elif len(held) == len(actions):
                await self._park([action.wait for _, action in actions if isinstance(action, Held)])
                return
            await self._carry_out([(pending.call, action) for pending, action in actions if not isinstance(action, Held)])
            # The next prompt is made from the history: the results must be in it.
            await self._flush()

    def _is_answered(self, call: ToolCall) -> bool:
        return self._accepted.waits[call.id].answer is not None

    async def lose(self) -> None:
        """Gives the calls that may have been running when the process died their results; the others remain."""
        accepted = self._accepted
        for pending in accepted.state.pending:
            if await self._may_run_again(pending):
                continue
            rest = tuple(other for other in accepted.state.pending if other is not pending)
            accepted.state = msgspec.structs.replace(accepted.state, pending=rest)
            self._finish(pending.call, ToolOutcome(calls.LOST, True))
        await self._flush()

    async def _may_run_again(self, pending: PendingCall) -> bool:
        """Tells whether a call without a result cannot have taken effect, or may do so twice."""
        call = pending.call
        if call.id in self._accepted.waits or self._tools.may_repeat(call.name) or self._tools.waits_for(call.name):
            return True
        facts = self._tools.facts(call, tainted=self._tainted)
        # A call that nobody has approved has not been made.
        return facts is not None and (await self._verdict(facts)).do != "allow"

    async def _decide(self, pending: PendingCall) -> Action:
        call = pending.call
        wait = self._accepted.waits.get(call.id)
        if wait is not None:
            action = calls.resume(call, wait, repeatable=self._tools.may_repeat(call.name))
            # The result of a client is no shorter than that of a tool.
            if isinstance(action, ToolOutcome) and not action.is_error:
                return limit_result(call.name, action.result, self._limits.tool_output)
            return action
        if pending.problem is not None:
            return ToolOutcome(pending.problem, True)
        facts = self._tools.facts(call, tainted=self._tainted)
        if facts is None:
            # It fails by itself, with a text that helps the model.
            return Run(call)
        verdict = await self._verdict(facts)
        if verdict.do == "deny":
            return ToolOutcome(calls.denied(verdict.why), True, is_denied=True)
        if (kind := self._tools.waits_for(call.name)) is not None:
            return Held(self._wait(call, facts, kind, verdict, timeout_seconds=self._tools.timeout_seconds(call.name)))
        return Run(call) if verdict.do == "allow" else Held(self._wait(call, facts, "approval", verdict))

    async def _verdict(self, facts: CallFacts) -> Verdict:
        log = self._log
        layers = self._ports.policy(log.tenant_id, self._image)
        verdict = decide(facts, layers)
        if verdict.do != "ask" or not verdict.approval.remember:
            return verdict
        waits = self._ports.store.tenant(log.tenant_id).waits((log.container_id,))
        if await waits.is_remembered(self._image.image_id, log.session_id, facts.tool, facts.version):
            return decide(facts, layers, {(facts.tool, facts.version)})
        return verdict

    def _wait(
        self, call: ToolCall, facts: CallFacts, kind: WaitKind, verdict: Verdict, timeout_seconds: float | None = None
    ) -> ToolWait:
        at, approval = self._ports.clock(), verdict.approval
        lasts = approval.expires_seconds if timeout_seconds is None else timeout_seconds
        return ToolWait(
            wait_id=WaitId(self._ports.new_id("wait")),
            container_id=self._log.container_id,
            session_id=self._log.session_id,
            turn_id=self._accepted.state.turn_id,
            call_id=call.id,
            kind=kind,
            tool=call.name,
            version=facts.version,
            fingerprint=fingerprint_of(call.name, facts.version, call.input),
            input=call.input,
            why=verdict.why if kind == "approval" else _WHY[kind],
            audience=approval.audience,
            not_sender=approval.not_sender,
            may_remember=approval.remember,
            sender=self._accepted.bill.user_id,
            asked_at=at,
            expires_at=at + int(lasts * 1000),
        )

    async def _announce(self, actions: Sequence[Action]) -> None:
        """Commits who is waited for and what is about to run: what a tool does cannot be taken back."""
        at, accepted, events = self._ports.clock(), self._accepted, list[EventData]()
        for action in actions:
            match action:
                case Held(wait=wait) if wait.call_id not in accepted.waits:
                    accepted.waits[wait.call_id] = wait
                    events += [WaitChanged(change=wait), _waiting(wait)]
                case Run(wait=ToolWait() as wait):
                    accepted.waits[wait.call_id] = msgspec.structs.replace(wait, started_at=at)
                    started = ToolStarted(turn_id=wait.turn_id, tool_id=wait.call_id, tool_name=wait.tool)
                    events += [WaitChanged(change=StartedWait(wait_id=wait.wait_id, at=at)), started]
                case _:
                    pass
        if events:
            self._ports.journal.post(self._log, events, accepted.scope)
        await self._flush()

    async def _park(self, waits: Sequence[ToolWait]) -> None:
        accepted, now = self._accepted, self._accepted.state
        parked = TurnParked(
            turn_id=now.turn_id,
            message_id=now.user_message_id,
            waits=tuple(wait.wait_id for wait in waits),
            active=accepted.active_ms(),
            timestamp=self._ports.clock(),
        )
        # User interfaces of 1.x accept the next message only after the end of the conversation.
        await self._ports.journal.emit(self._log, (ConversationEnd(reason="completed"), parked), accepted.scope)
        accepted.parked = True

    async def _carry_out(self, actions: Sequence[tuple[ToolCall, Run | ToolOutcome]]) -> None:
        """Runs the calls side by side. Results are told as they come."""
        done, results = anyio.create_memory_object_stream[tuple[ToolCall, ToolOutcome]](len(actions))
        async with open_tasks() as tasks:
            with done, results:
                for call, action in actions:
                    tasks.start_soon(self._carry_out_one, call, action, done)
                for _ in actions:
                    call_done, outcome = await results.receive()
                    self._finish(call_done, outcome)
                    if self._ports.journal.crowded:
                        await self._flush()

    async def _carry_out_one(
        self,
        call: ToolCall,
        action: Run | ToolOutcome,
        done: "anyio.abc.ObjectSendStream[tuple[ToolCall, ToolOutcome]]",
    ) -> None:
        match action:
            case ToolOutcome() as outcome:
                pass
            case Run(call=to_run, note=note):
                ended = await self._call_run.run(to_run)
                outcome = ended if isinstance(ended, ToolOutcome) else ToolOutcome(calls.NOBODY_TO_ASK, True)
                if note is not None:
                    edited: Mapping[str, object] = {"note": note, "input": to_run.input, "result": outcome.result}
                    outcome = ToolOutcome(edited, outcome.is_error)
        await done.send((call, outcome))

    def _finish(self, call: ToolCall, outcome: ToolOutcome) -> None:
        facts = self._tools.facts(call)
        tainted = facts is not None and facts.world == "open" and not outcome.is_denied
        state, told = turn.tool_finished(self._accepted.state, call, outcome, self._ports.clock(), tainted=tainted)
        self._ports.journal.post(self._log, told, self._accepted.scope)
        self._accepted.state = state

    async def _flush(self) -> None:
        await self._ports.journal.settle(self._log, self._accepted.scope)


_WHY: Mapping[WaitKind, str] = {
    "client": "the tool is run by the client",
    "question": "the agent asks a question",
    "elicitation": "the tool asks for input",
    "consent": "the tool needs your consent to act for you",
}


def _waiting(wait: ToolWait) -> ToolWaiting:
    return ToolWaiting(
        wait_id=wait.wait_id,
        turn_id=wait.turn_id,
        tool_id=wait.call_id,
        tool_name=wait.tool,
        kind=wait.kind,
        input=wait.input,
        fingerprint=wait.fingerprint,
        decisions=wait.decisions,
        why=wait.why,
        audience=wait.audience,
        expires_at=wait.expires_at,
    )


def answer_events(wait: ToolWait, answer: WaitAnswer, by: UserId | None, at: int) -> tuple[EventData, ...]:
    """Returns the end of a wait: for its row, and for those who watch."""
    return (
        WaitChanged(change=AnsweredWait(wait_id=wait.wait_id, turn_id=wait.turn_id, answer=answer, by=by, at=at)),
        ToolAnswered(
            wait_id=wait.wait_id,
            turn_id=wait.turn_id,
            tool_id=wait.call_id,
            tool_name=wait.tool,
            decision=answer.decision,
            by=by,
            reason=answer.reason,
        ),
    )


def close_waits(accepted: Accepted, at: int) -> turn.Step:
    """Ends the open waits of a turn that does not go on: each call gets a result, so that no call is left without one."""
    now, told = accepted.state, list[EventData]()
    superseded = WaitAnswer(decision="superseded")
    for pending in now.pending:
        wait = accepted.waits.get(pending.call.id)
        if wait is not None and wait.answer is None:
            now, finished = turn.tool_finished(now, pending.call, ToolOutcome(calls.SUPERSEDED, True, True), at)
            told += [*answer_events(wait, superseded, None, at), *finished]
    return now, tuple(told)
