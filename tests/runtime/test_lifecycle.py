import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.errors import AgentNotRunning
from agentvm.runtime.lifecycle import MOVES, AgentState, Move, move

ILLEGAL = [pair for pair in itertools.product(AgentState, Move) if pair not in MOVES]


@pytest.mark.parametrize(("state", "what"), MOVES)
def test_a_listed_move_leads_where_the_table_says(state: AgentState, what: Move) -> None:
    assert move(state, what) is MOVES[state, what]


@pytest.mark.parametrize(("state", "what"), ILLEGAL)
def test_every_other_move_is_refused(state: AgentState, what: Move) -> None:
    with pytest.raises(AgentNotRunning) as refused:
        move(state, what)
    assert refused.value.code == "agent_not_running"


@pytest.mark.parametrize("state", [AgentState.STOPPING, AgentState.STOPPED])
def test_a_message_to_an_ending_agent_is_refused_in_the_words_of_1x(state: AgentState) -> None:
    with pytest.raises(AgentNotRunning) as refused:
        move(state, Move.RECEIVE)
    assert str(refused.value) == f"Cannot send message to {state.value} agent"


@given(st.lists(st.sampled_from(Move)))
def test_whatever_happens_a_stop_is_never_undone(moves: list[Move]) -> None:
    state = AgentState.IDLE
    ending = False
    for what in moves:
        if (state, what) in MOVES:
            state = move(state, what)
        ending = ending or what is Move.STOP
        assert (state in (AgentState.STOPPING, AgentState.STOPPED)) == ending


@pytest.mark.parametrize("state", AgentState)
def test_an_agent_can_be_stopped_from_everywhere(state: AgentState) -> None:
    assert move(state, Move.STOP) in (AgentState.STOPPING, AgentState.STOPPED)
