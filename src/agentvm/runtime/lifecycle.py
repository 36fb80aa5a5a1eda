"""Lifecycle — the moves of an agent in each state. Everything that affects the state is in this table."""

from enum import Enum

from agentvm.errors import AgentNotRunning


class AgentState(Enum):
    """Where an agent is in its life."""

    IDLE = "idle"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"


class Move(Enum):
    """Events of an agent."""

    RECEIVE = "receive"
    START = "start"
    REST = "rest"
    STOP = "stop"
    STOPPED = "stopped"


MOVES: dict[tuple[AgentState, Move], AgentState] = {
    (AgentState.IDLE, Move.RECEIVE): AgentState.IDLE,
    (AgentState.IDLE, Move.START): AgentState.RUNNING,
    (AgentState.IDLE, Move.STOP): AgentState.STOPPING,
    (AgentState.RUNNING, Move.RECEIVE): AgentState.RUNNING,
    (AgentState.RUNNING, Move.START): AgentState.RUNNING,
    (AgentState.RUNNING, Move.REST): AgentState.IDLE,
    (AgentState.RUNNING, Move.STOP): AgentState.STOPPING,
    (AgentState.STOPPING, Move.STOP): AgentState.STOPPING,
    (AgentState.STOPPING, Move.REST): AgentState.STOPPING,
    (AgentState.STOPPING, Move.STOPPED): AgentState.STOPPED,
    (AgentState.STOPPED, Move.STOP): AgentState.STOPPED,
}


def move(state: AgentState, step: Move) -> AgentState:
    """The state after a move; `AgentNotRunning` where the table has no such move."""
    try:
        return MOVES[state, step]
    except KeyError:
        verb = "send message to" if step is Move.RECEIVE else step.value
        raise AgentNotRunning(f"Cannot {verb} {state.value} agent") from None
