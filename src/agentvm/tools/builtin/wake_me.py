"""wake_me — lets the agent continue at a later time; until then the turn is parked, which costs a row."""

from collections.abc import Mapping
from datetime import UTC, datetime

from agentvm.errors import ToolFailed
from agentvm.model.ids import Clock
from agentvm.tools.base import (
    CallContext,
    CallTraits,
    InputRequired,
    Outcome,
    TraitsOfTool,
    text_result,
    tool_spec,
)

LONGEST_SECONDS = 366 * 86_400
NOTE_MAX = 2_000

_SPEC = tool_spec(
    "wake_me",
    (
        "Waits, and lets you go on later: `in` a number of seconds, or `at` a time with its offset, such as "
        "2026-11-17T09:00:00+01:00. Use it instead of asking again and again. You get the note back when the time has come."
    ),
    ["note"],
    {
        "in": {"type": "integer", "minimum": 1, "maximum": LONGEST_SECONDS, "description": "Seconds from now"},
        "at": {"type": "string", "maxLength": 40, "description": "ISO 8601, with an offset or Z"},
        "note": {"type": "string", "minLength": 1, "maxLength": NOTE_MAX, "description": "What to do then"},
    },
)


class WakeMe(TraitsOfTool):
    """The tool `wake_me`."""

    spec = _SPEC
    traits = CallTraits.of("read", world="closed")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def run(self, input: Mapping[str, object], context: CallContext) -> Outcome:
        """Requests a timer; called again at that time, returns the note."""
        now = self._clock()
        if context.resumption is None:
            return InputRequired(questions={}, kind="timer", until=wake_time(input, now))
        shown = datetime.fromtimestamp(now / 1000, UTC).isoformat(timespec="seconds")
        return text_result(f"It is {shown}. Your note: {input['note']}")


def wake_time(input: Mapping[str, object], now: int) -> int:
    """Returns the time that a call names, in ms; `ToolFailed` for none, for both, and for one that has passed."""
    after, text = input.get("in"), input.get("at")
    if (after is None) == (text is None):
        raise ToolFailed("give either `in` or `at`")
    if isinstance(after, int):
        return now + after * 1000
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        raise ToolFailed("`at` must be a time such as 2026-11-17T09:00:00+01:00") from None
    if moment.tzinfo is None:
        raise ToolFailed("`at` needs an offset, such as +01:00 or Z: it is not known in which zone it is meant")
    at = int(moment.timestamp() * 1000)
    if not now < at <= now + LONGEST_SECONDS * 1000:
        raise ToolFailed("`at` must be in the future, and at most a year from now")
    return at
