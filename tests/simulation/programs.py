"""Programs — what the programs of models did and saw, in all runs of each; and what must be true of it."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from agentvm.errors import ToolFailed
from agentvm.tools.base import CallContext, CallResult

if TYPE_CHECKING:
    from tests.simulation.world import World

TURN_CALLS_MAX = 20
"""Tool calls of one turn, those of its programs among them."""
RESULT = """
SELECT body FROM all_messages
WHERE json_extract(CAST(body AS TEXT), '$.toolCallId') = ? AND json_extract(CAST(body AS TEXT), '$.role') = 'tool'
"""


@dataclass(slots=True)
class Programs:
    """The world's knowledge of programs: outlives each process."""

    runs: Counter[str] = field(default_factory=Counter)
    """How often each program was begun."""
    seen: dict[str, list[object]] = field(default_factory=dict)
    """The results that the last run of each program has got so far."""
    fixed: dict[str, list[object]] = field(default_factory=lambda: defaultdict(list))
    """The results that a program had got when it did something that cannot be taken back: every later run gets the same."""
    returned: dict[str, list[object]] = field(default_factory=lambda: defaultdict(list))
    """The values that the runs of a program have returned."""
    made: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Calls that were really made, by what the user said."""
    complaints: list[str] = field(default_factory=list)
    _serial: int = 0

    def result_of(self, call_id: str) -> dict[str, object]:
        """Returns another result each time: a call that is made again is seen."""
        self._serial += 1
        return {"done": call_id, "serial": self._serial}

    def begins(self, said: str, call_id: str, *, is_once: bool) -> None:
        """A tool was begun, by a model or by a program."""
        self.made[said].add(call_id)
        program = call_id.rpartition(".")[0]
        if program in self.seen and is_once:
            self.fixed[program] = list(self.seen[program])

    def sees(self, program: str, result: object) -> None:
        """A call of a program has returned."""
        seen, fixed = self.seen[program], self.fixed[program]
        seen.append(result)
        if seen[: len(fixed)] != fixed[: len(seen)]:
            self.complaints.append(f"{program} has got {seen}, and {fixed} before it did something")

    def check(self, world: "World") -> None:
        """Raises AssertionError with what is wrong."""
        assert not self.complaints, "\n".join(self.complaints)
        left = world.disk.query("SELECT turn_id, program, number FROM program_calls")
        assert not left, f"programs have ended and left their journals: {left}"
        many = {said: calls for said, calls in self.made.items() if len(calls) > TURN_CALLS_MAX}
        assert not many, f"turns have made more calls than they may: {many}"
        for program, returned in self.returned.items():
            for (body,) in world.disk.query(RESULT, (program,)):
                result = msgspec.json.decode(body)["toolResult"]["output"]
                if result["type"] == "text":
                    value = msgspec.json.decode(result["value"])
                    assert value in returned, f"{program} has returned {returned}, and {value} is stored"
        world.counts["programs"] += len(self.runs)
        world.counts["programs run again"] += sum(runs > 1 for runs in self.runs.values())
        world.counts["calls of programs"] += sum("." in call for calls in self.made.values() for call in calls)


async def run_program(
    programs: Programs, alive: Callable[[], bool], arguments: dict[str, Any], context: CallContext
) -> CallResult:
    """A program that makes the calls of its arguments, one after the other. A fickle one makes others in each run."""
    if not alive():
        await anyio.sleep_forever()
    assert context.others is not None
    program = arguments["id"]
    programs.runs[program] += 1
    programs.seen[program] = []
    for name, given in arguments["calls"]:
        result: object
        try:
            more = {"run": programs.runs[program]} if arguments["fickle"] else {}
            result = await context.others.call(name, {**given, **more})
        except ToolFailed as error:
            result = str(error)
        if not alive():
            await anyio.sleep_forever()
        programs.sees(program, result)
        if arguments["gives_up"] and isinstance(result, str):
            raise ToolFailed("the program does not go on")
    value = {"done": program, "saw": list(programs.seen[program])}
    programs.returned[program].append(value)
    return CallResult(type="json", value=value)


def check_nested(events: Sequence[dict[str, Any]]) -> None:
    """A call of a program that has completed is never made again."""
    completed: set[str] = set()
    for event in events:
        data = event["data"]
        call_id = data.get("toolId", "")
        match event["type"]:
            case "tool_completed" if "parentId" in data:
                assert call_id not in completed, f"{call_id} has completed twice"
                completed.add(call_id)
            case "tool_started" | "tool_executing":
                assert call_id not in completed, f"{call_id} was begun again"
            case _:
                pass
