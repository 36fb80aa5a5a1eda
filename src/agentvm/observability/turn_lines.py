"""Turn lines — one log entry for each ended turn: user, duration, tokens, outcome. Never the content of messages."""

from agentvm.events.base import Event
from agentvm.events.turn import TurnParked, TurnRequest, TurnResponse, TurnResumed
from agentvm.log import get_logger
from agentvm.model.ids import TurnId, UserId

logger = get_logger(__name__)


class TurnLines:
    """An effector. Remembers the users of running turns, because the end of a turn does not name them."""

    kinds = (TurnRequest, TurnParked, TurnResumed, TurnResponse)

    def __init__(self) -> None:
        self._users: dict[TurnId, UserId] = {}

    def react(self, event: Event) -> None:
        match event.data:
            case TurnRequest(turn_id=turn_id, user_id=str(user_id)) | TurnResumed(turn_id=turn_id, user_id=str(user_id)):
                self._users[turn_id] = UserId(user_id)
            case TurnParked(turn_id=turn_id):
                # It may wait for weeks, and names its user again when it continues.
                self._users.pop(turn_id, None)
            case TurnResponse() as end:
                scope = event.scope
                logger.info(
                    "turn_ended",
                    tenant_id=event.tenant_id,
                    user_id=self._users.pop(end.turn_id, None),
                    container_id=scope.container_id,
                    session_id=scope.session_id,
                    turn_id=end.turn_id,
                    request_id=None,
                    outcome=end.outcome,
                    stop_reason=end.stop_reason,
                    duration_ms=end.duration,
                    model=end.model,
                    input_tokens=end.usage.input_tokens,
                    output_tokens=end.usage.output_tokens,
                )
            case _:
                pass
