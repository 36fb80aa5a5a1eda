import anyio

from agentvm.errors import InboxFull, ProviderBadRequest, ProviderOverloaded
from agentvm.events.base import EventScope
from agentvm.events.turn import TurnResponse
from agentvm.model.ids import DEFAULT_TENANT, MessageId, TurnId
from agentvm.runtime import turn
from agentvm.runtime.accepted import Accepted, failure_of
from agentvm.runtime.billing import Bill, Unmetered


async def test_a_turn_takes_as_long_as_the_loop_says_and_what_it_took_before() -> None:
    scope = EventScope(turn_id=TurnId("turn_1"))
    state = turn.begin(TurnId("turn_1"), MessageId("m"), 1)
    accepted = Accepted(state, scope, Bill(Unmetered(), lambda: 1, DEFAULT_TENANT, None, scope))
    accepted.since = anyio.current_time() - 2.0
    accepted.before_ms = 500
    # The clock on the wall was set a day ahead meanwhile.
    _, told = turn.interrupted(state, 86_400_000)
    end = accepted.timed(told)[-1]
    assert isinstance(end, TurnResponse)
    assert 2_500 <= end.duration < 60_000
    assert accepted.timed(told)[:-1] == told[:-1]


def test_only_what_may_go_away_is_worth_another_try() -> None:
    assert failure_of(ProviderOverloaded("busy")) == ("provider_overloaded", "busy", True)
    assert failure_of(ProviderBadRequest("no")) == ("provider_bad_request", "no", False)
    assert failure_of(InboxFull("full")) == ("inbox_full", "full", True)
