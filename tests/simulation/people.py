"""People — those who answer the calls that wait, or do not; and what must be true of their answers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from agentvm.errors import AgentVMError
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.wait import ToolWait, WaitAnswer
from agentvm.runtime.runtime import Runtime

if TYPE_CHECKING:
    from tests.simulation.world import World

LISTED_MAX = 50
WAITS = """
SELECT s.session_id, w.session_key, w.wait_id, w.turn_id, w.call_id, w.answered_at, w.answer, s.quarantine
FROM waits AS w JOIN sessions AS s USING (session_key)
"""
RESULTS = """
SELECT count(*) FROM all_messages
WHERE session_key = ? AND json_extract(CAST(body AS TEXT), '$.toolCallId') = ?
  AND json_extract(CAST(body AS TEXT), '$.role') = 'tool' AND json_extract(CAST(body AS TEXT), '$.turnId') = ?
"""
UNREAD = """
SELECT count(*) FROM all_messages
WHERE session_key = ? AND json_extract(CAST(body AS TEXT), '$.errorCode') = 'store_failed'
  AND json_extract(CAST(body AS TEXT), '$.turnId') = ?
"""


class People:
    """Answer now and then, from any process, at any moment."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.acknowledged: dict[str, str] = {}
        """The decisions that the server has confirmed, by wait."""

    async def live(self, answers: int) -> None:
        for _ in range(answers):
            await anyio.sleep(self._world.dice.pause(0.5))
            await self.answer_some()

    async def answer_some(self, *, every: bool = False) -> bool:
        """Answers one open wait, or all; False if there is none."""
        process = self._world.process
        runtime = None if process is None else process.runtime
        if process is None or runtime is None:
            return False
        try:
            waits = await _open_waits(runtime)
        except AgentVMError:
            return True
        chosen = waits if every else [self._world.dice.choice(waits)] if waits else []
        for wait in chosen:
            process.start(self._answer, runtime, wait, self._decision(wait))
        return bool(chosen)

    def _decision(self, wait: ToolWait) -> WaitAnswer:
        dice = self._world.dice
        decision = dice.choice(wait.decisions)
        if decision == "edit":
            return WaitAnswer(decision="edit", input={**wait.input, "seconds": dice.pause(0.2)})
        return WaitAnswer(decision=decision, result={"picked": wait.call_id} if decision == "answer" else None)

    async def _answer(self, runtime: Runtime, wait: ToolWait, given: WaitAnswer) -> None:
        self._world.counts["answers"] += 1
        try:
            is_taken = await runtime.answer_wait(DEFAULT_TENANT, wait, given, None)
        except AgentVMError:
            return
        if is_taken:
            before = self.acknowledged.setdefault(wait.wait_id, given.decision)
            if before != given.decision:
                self._world.object(f"{wait.wait_id} was answered with {before}, and with {given.decision}")

    def check(self) -> None:
        """Every wait has ended with the confirmed answer, and each call that has waited has exactly one result."""
        world = self._world
        for session_id, key, wait_id, turn_id, call_id, answered_at, answer, quarantine in world.disk.query(WAITS):
            if quarantine is not None:
                continue
            assert answered_at is not None, f"{wait_id} is open at the end"
            decision = msgspec.json.decode(answer, type=WaitAnswer).decision
            world.counts[f"waits {decision}"] += 1
            told = self.acknowledged.get(wait_id, decision)
            assert told == decision, f"{wait_id}: {told} was confirmed, and {decision} is stored"
            if session_id not in world.thinned:
                # That of a program has no result but its program's.
                ((results,),) = world.disk.query(RESULTS, (key, call_id.partition(".")[0], turn_id))
                # A turn that is ended because the disk cannot be read is not known to have called anything.
                ((unread,),) = world.disk.query(UNREAD, (key, turn_id))
                assert results == 1 or (results == 0 and unread), f"{call_id} of {turn_id} has {results} results"
                world.counts["calls without a result"] += 1 - results


async def _open_waits(runtime: Runtime) -> list[ToolWait]:
    waits = runtime._ports.store.tenant(DEFAULT_TENANT).waits(None)
    return [wait for _, wait in await waits.list_page(session_id=None, state="open", after=0, limit=LISTED_MAX)]


def check_parked(events: Sequence[dict[str, Any]]) -> None:
    """A parked turn goes on only after an answer."""
    parked: set[str] = set()
    for event in events:
        turn_id = event["data"].get("turnId")
        match event["type"]:
            case "turn_parked":
                parked.add(turn_id)
            case "tool_answered":
                parked.discard(turn_id)
            case "turn_resumed" | "tool_started" if turn_id in parked:
                raise AssertionError(f"{turn_id} was parked and went on without an answer")
            case _:
                pass
