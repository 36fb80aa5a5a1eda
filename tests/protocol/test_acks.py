import json
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.model.ids import SessionId
from agentvm.operations.table import CODEC
from agentvm.protocol import acks as module
from agentvm.protocol.acks import PENDING_FRAMES_MAX, Acks
from agentvm.protocol.codec import Frame
from agentvm.protocol.connection import PeerConnection

ONE, TWO = SessionId("s1"), SessionId("s2")


def told(acks: Acks, number: int, session_id: SessionId, seq: int) -> None:
    acks.begin(session_id, seq - 1)
    acks.sent(number, session_id, seq)


def test_a_session_of_which_nothing_was_told_has_no_cursor() -> None:
    assert Acks().cursor(ONE) is None


def test_what_was_told_and_not_acknowledged_is_before_the_cursor_of_none() -> None:
    acks = Acks()
    told(acks, 2, ONE, 8)
    told(acks, 3, ONE, 9)
    assert (acks.cursor(ONE), acks.pending) == (7, 2)


def test_an_acknowledgement_covers_everything_before_it_in_every_session() -> None:
    acks = Acks()
    for number, session_id, seq in ((2, ONE, 8), (4, TWO, 1), (5, ONE, 9)):
        told(acks, number, session_id, seq)
    acks.acknowledge(4)
    assert (acks.cursor(ONE), acks.cursor(TWO), acks.pending, acks.heard) == (8, 1, 1, 4)
    acks.acknowledge(2)
    assert (acks.cursor(ONE), acks.heard) == (8, 4)


def test_a_client_that_asks_for_the_past_is_where_it_asked_to_be() -> None:
    acks = Acks()
    acks.restart(ONE, 3)
    assert acks.cursor(ONE) is None
    told(acks, 2, ONE, 8)
    told(acks, 3, TWO, 5)
    acks.restart(ONE, 3)
    acks.acknowledge(3)
    assert (acks.cursor(ONE), acks.cursor(TWO)) == (3, 5)


def test_more_than_can_be_kept_means_that_nothing_is_known() -> None:
    acks = Acks()
    for number in range(PENDING_FRAMES_MAX):
        told(acks, number + 2, ONE, number + 1)
    assert (acks.stopped, acks.pending) == (False, PENDING_FRAMES_MAX)
    told(acks, PENDING_FRAMES_MAX + 2, ONE, PENDING_FRAMES_MAX + 1)
    assert (acks.stopped, acks.pending, acks.cursor(ONE)) == (True, 0, None)
    told(acks, PENDING_FRAMES_MAX + 3, TWO, 1)
    assert (acks.pending, acks.cursor(TWO)) == (0, None)


def test_too_many_sessions_mean_that_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ACKED_SESSIONS_MAX", 2)
    acks = Acks()
    for number in range(3):
        told(acks, number + 2, SessionId(f"s{number}"), 1)
    assert (acks.stopped, acks.cursor(SessionId("s0"))) == (True, None)


@dataclass
class World:
    """A log of each session, a server that replays from cursors, and a client that reads and acknowledges."""

    logs: dict[SessionId, int] = field(default_factory=lambda: {ONE: 3, TWO: 0})
    heard: dict[SessionId, list[int]] = field(default_factory=lambda: {ONE: [], TWO: []})
    wire: list[str] = field(default_factory=list)
    acks: Acks = field(default_factory=Acks)
    connection: PeerConnection = field(init=False)
    sockets: int = 0

    def __post_init__(self) -> None:
        self.connect(dict.fromkeys(self.logs))

    def connect(self, cursors: dict[SessionId, int | None]) -> None:
        self.sockets += 1
        self.acks, self.wire = Acks(), []
        self.connection = PeerConnection(f"conn_{self.sockets}", CODEC, self.acks)
        self.connection.hello(7)
        self.connection.receive(json.dumps({"__ack": f"conn_{self.sockets}_1"}))
        for session_id, cursor in cursors.items():
            for seq in range(self.logs[session_id] + 1 if cursor is None else cursor + 1, self.logs[session_id] + 1):
                self.tell(session_id, seq)

    def tell(self, session_id: SessionId, seq: int) -> None:
        self.acks.begin(session_id, seq - 1)
        self.wire.append(self.connection.send(Frame(json.dumps([session_id, seq]), session_id, seq)))

    def happen(self, session_id: SessionId) -> None:
        self.logs[session_id] += 1
        self.tell(session_id, self.logs[session_id])

    def read(self, count: int) -> None:
        """The client reads so many frames, and the server its acknowledgements."""
        for text in self.wire[:count]:
            frame = json.loads(text)
            session_id, seq = json.loads(frame["__payload"])
            self.heard[session_id].append(seq)
            self.connection.receive(json.dumps({"__ack": frame["__msgId"]}))
        del self.wire[:count]

    def drop(self, missed: dict[SessionId, int]) -> None:
        """What is on the wire is lost, and more happens before the client comes back."""
        cursors = {session_id: self.acks.cursor(session_id) for session_id in self.logs}
        cursors = {name: self.logs[name] if cursor is None else cursor for name, cursor in cursors.items()}
        for session_id, count in missed.items():
            self.logs[session_id] += count
        self.connect({**cursors})


steps = st.one_of(
    st.sampled_from([ONE, TWO]),
    st.integers(1, 5),
    st.fixed_dictionaries({ONE: st.integers(0, 3), TWO: st.integers(0, 3)}),
)


@given(st.lists(steps, max_size=60))
def test_whenever_the_socket_drops_the_client_hears_every_event_once_and_in_order(
    story: list[str | int | dict[SessionId, int]],
) -> None:
    world = World()
    begun = dict(world.logs)
    for step in story:
        match step:
            case str():
                world.happen(SessionId(step))
            case int():
                world.read(step)
            case dict():
                before = len(world.wire)
                unread = sum(world.logs.values()) - sum(begun.values()) - sum(map(len, world.heard.values()))
                assert before == unread
                world.drop(step)
                assert len(world.wire) == unread + sum(step.values()), "exactly what was not acknowledged, and what was missed"
    world.read(len(world.wire))
    assert world.heard == {name: list(range(begun[name] + 1, world.logs[name] + 1)) for name in world.logs}
