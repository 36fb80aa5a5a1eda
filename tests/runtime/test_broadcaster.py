from tests.runtime.dialects import Counted

from agentvm.events.base import Event, EventData, EventScope
from agentvm.events.lifecycle import ContainerCreated, Interrupted
from agentvm.events.message import SilentMessageEvent
from agentvm.events.stream import TextContentBlockStop, TextDelta
from agentvm.model.ids import AgentId, ContainerId, MessageId, SessionId, TenantId
from agentvm.model.message import AssistantMessage
from agentvm.model.principal import Principal
from agentvm.protocol.dialect_v1 import encode_event
from agentvm.runtime.broadcaster import MAX_SUBSCRIPTIONS, Broadcaster, Follow
from agentvm.runtime.channel import GOING_AWAY, MAX_FRAMES, RESERVE_FACTOR, TOO_SLOW, Channel, Encode

A, B = TenantId("a"), TenantId("b")
C1, C2 = ContainerId("c1"), ContainerId("c2")
S1, S2 = SessionId("s1"), SessionId("s2")


def attach(broadcaster: Broadcaster, tenant: TenantId = A, encode: Encode = encode_event) -> Channel:
    channel = Channel(Principal(tenant_id=tenant), encode)
    broadcaster.attach(channel)
    return channel


def in_session(session_id: SessionId = S1, tenant: TenantId = A, data: EventData | None = None, seq: int = 0) -> Event:
    scope = EventScope(container_id=C1, session_id=session_id)
    return Event(data=data or TextDelta(text="x"), scope=scope, timestamp=1, tenant_id=tenant, seq=seq)


def in_container(container_id: ContainerId, tenant: TenantId = A) -> Event:
    data = ContainerCreated(container_id=container_id, created_at=1)
    return Event(data=data, scope=EventScope(container_id=container_id), timestamp=1, tenant_id=tenant)


def heard(channel: Channel) -> int:
    return len(channel.take_nowait())


def test_a_sessions_events_go_to_its_subscribers_and_to_those_who_follow_its_container() -> None:
    broadcaster = Broadcaster()
    subscriber, device, stranger, elsewhere = (attach(broadcaster) for _ in range(4))
    broadcaster.subscribe(subscriber, C1, S1)
    broadcaster.join(device, C1, follow=True)
    broadcaster.join(device, C1)
    broadcaster.join(stranger, C1)
    broadcaster.subscribe(stranger, C1, S2)
    broadcaster.join(elsewhere, C2, follow=True)
    for _ in range(2):
        broadcaster.broadcast((in_session(S1),))
    assert [heard(channel) for channel in (subscriber, device, stranger, elsewhere)] == [2, 2, 0, 0]
    assert broadcaster.is_heard(A, S1)
    for channel in (subscriber, device):
        broadcaster.detach(channel)
    assert not broadcaster.is_heard(A, S1)


def test_a_containers_events_go_to_those_who_work_with_it() -> None:
    broadcaster = Broadcaster()
    one, other = attach(broadcaster), attach(broadcaster)
    broadcaster.join(one, C1)
    broadcaster.join(other, C2)
    broadcaster.broadcast((in_container(C1),))
    assert [heard(channel) for channel in (one, other)] == [1, 0]
    assert broadcaster.joined(one) == {C1}


def test_tenants_with_the_same_names_never_hear_each_other() -> None:
    broadcaster = Broadcaster()
    one, other = attach(broadcaster, A), attach(broadcaster, B)
    for channel in (one, other):
        broadcaster.join(channel, C1)
        broadcaster.subscribe(channel, C1, S1)
    broadcaster.broadcast((in_session(S1, B),))
    broadcaster.broadcast((in_container(C1, B),))
    assert [heard(channel) for channel in (one, other)] == [0, 2]


def test_an_event_of_nobody_goes_to_nobody() -> None:
    broadcaster = Broadcaster()
    channel = attach(broadcaster)
    broadcaster.join(channel, C1)
    broadcaster.broadcast((Event(data=TextDelta(text="x"), scope=EventScope(), timestamp=1, tenant_id=A),))
    assert heard(channel) == 0


def test_subscribing_twice_is_hearing_once() -> None:
    broadcaster = Broadcaster()
    channel = attach(broadcaster)
    for _ in range(3):
        broadcaster.subscribe(channel, C1, S1)
        broadcaster.join(channel, C1)
    broadcaster.broadcast((in_session(),))
    assert heard(channel) == 1


def test_what_is_only_stored_is_not_told() -> None:
    broadcaster = Broadcaster()
    channel = attach(broadcaster)
    broadcaster.subscribe(channel, C1, S1)
    record = AssistantMessage(id=MessageId("m"), timestamp=1, role="assistant", content=())
    broadcaster.broadcast((in_session(data=SilentMessageEvent(message=record)),))
    assert heard(channel) == 0


def test_every_listener_gets_the_same_frame() -> None:
    broadcaster = Broadcaster()
    channels = [attach(broadcaster) for _ in range(3)]
    for channel in channels:
        broadcaster.subscribe(channel, C1, S1)
    broadcaster.broadcast((in_session(),))
    assert len({id(frame) for channel in channels for frame in channel.take_nowait()}) == 1


def test_two_dialects_on_one_session_encode_each_event_once_each() -> None:
    broadcaster, dialects = Broadcaster(), (Counted("a"), Counted("b"))
    channels = [attach(broadcaster, encode=encode) for encode in dialects for _ in range(3)]
    for channel in channels:
        broadcaster.subscribe(channel, C1, S1)
    broadcaster.broadcast([in_session(seq=seq) for seq in (1, 2, 3)])
    broadcaster.broadcast([in_session(seq=4)])
    assert [encode.calls for encode in dialects] == [[1, 2, 3, 4]] * 2
    texts = [[frame.bare for frame in channel.take_nowait()] for channel in channels]
    assert texts == [["a1", "a2", "a3", "a4"]] * 3 + [["b1", "b2", "b3", "b4"]] * 3


def test_what_a_dialect_leaves_out_is_no_gap() -> None:
    broadcaster = Broadcaster()
    channel = attach(broadcaster, encode=Counted("", skips=True))
    broadcaster.subscribe(channel, C1, S1)
    ended = TextContentBlockStop()
    broadcaster.broadcast([in_session(seq=1, data=ended), in_session(seq=2), in_session(seq=3, data=ended)])
    assert [frame.bare for frame in channel.take_nowait()] == ["1", "3"]
    assert not channel.lagging
    subscription = broadcaster.subscription(channel, S1)
    assert subscription is not None
    assert subscription.cursor == 3


def test_a_peer_that_does_not_read_falls_behind_and_the_others_still_hear() -> None:
    broadcaster = Broadcaster()
    slow, quick = attach(broadcaster), attach(broadcaster)
    for channel in (slow, quick):
        broadcaster.subscribe(channel, C1, S1)
    for seq in range(1, MAX_FRAMES + 3):
        broadcaster.broadcast((in_session(seq=seq),))
        assert heard(quick) == 1
    assert (slow.closing, quick.closing) == (None, None)
    assert [subscription.cursor for subscription in slow.lagging] == [MAX_FRAMES]
    assert not quick.lagging


def test_what_is_in_no_log_cuts_off_a_peer_that_does_not_read() -> None:
    broadcaster = Broadcaster()
    slow = attach(broadcaster)
    broadcaster.subscribe(slow, C1, S1)
    for _ in range(MAX_FRAMES * RESERVE_FACTOR + 1):
        broadcaster.broadcast((in_session(),))
    assert slow.closing is TOO_SLOW


def test_who_asks_for_the_past_hears_nothing_live_until_it_was_fed() -> None:
    broadcaster = Broadcaster()
    channel = attach(broadcaster)
    broadcaster.subscribe(channel, C1, S1, 3)
    broadcaster.broadcast((in_session(seq=9),))
    assert heard(channel) == 0
    (subscription,) = channel.lagging
    subscription.cursor = 9
    channel.lagging.clear()
    for seq in (8, 9, 10):
        broadcaster.broadcast((in_session(seq=seq),))
    assert heard(channel) == 1
    assert subscription.cursor == 10


def test_a_gap_is_filled_from_the_log() -> None:
    broadcaster = Broadcaster()
    channel = attach(broadcaster)
    broadcaster.subscribe(channel, C1, S1)
    for seq in (5, 7):
        broadcaster.broadcast((in_session(seq=seq),))
    assert heard(channel) == 1
    assert [subscription.cursor for subscription in channel.lagging] == [5]


def test_a_closing_channel_does_not_fall_behind() -> None:
    broadcaster = Broadcaster()
    channel = attach(broadcaster)
    broadcaster.subscribe(channel, C1, S1)
    channel.close(GOING_AWAY)
    broadcaster.broadcast((in_session(seq=1),))
    assert not channel.lagging


def test_who_is_detached_leaves_no_trace() -> None:
    broadcaster = Broadcaster()
    fresh = vars(Broadcaster())
    one, two = attach(broadcaster), attach(broadcaster)
    for channel in (one, two):
        broadcaster.subscribe(channel, C1, S1)
        broadcaster.subscribe(channel, C1, S2)
        broadcaster.join(channel, C1)
    broadcaster.detach(one)
    broadcaster.broadcast((in_session(),))
    assert [heard(channel) for channel in (one, two)] == [0, 1]
    broadcaster.detach(two)
    broadcaster.detach(two)
    assert vars(broadcaster) == fresh


def test_who_is_attached_again_continues_with_none_of_its_subscriptions() -> None:
    broadcaster = Broadcaster()
    channel = attach(broadcaster)
    broadcaster.subscribe(channel, C1, S1, after=0)
    broadcaster.detach(channel)
    broadcaster.attach(channel)
    assert not channel.lagging
    broadcaster.subscribe(channel, C1, S1, after=5)
    assert [subscription.cursor for subscription in channel.lagging] == [5]


def test_who_is_not_attached_cannot_listen() -> None:
    broadcaster = Broadcaster()
    channel = attach(broadcaster)
    broadcaster.detach(channel)
    broadcaster.subscribe(channel, C1, S1)
    broadcaster.join(channel, C1)
    assert broadcaster.joined(channel) == frozenset()
    assert vars(broadcaster) == vars(Broadcaster())


def test_a_forgotten_session_leaves_no_trace_and_its_namesake_stays() -> None:
    broadcaster = Broadcaster()
    one, two, other = attach(broadcaster), attach(broadcaster), attach(broadcaster, B)
    for channel in (one, two, other):
        broadcaster.subscribe(channel, C1, S1)
        broadcaster.subscribe(channel, C1, S2)
    for _ in range(2):
        broadcaster.forget(A, S1)
    for session_id, tenant in ((S1, A), (S2, A), (S1, B)):
        broadcaster.broadcast((in_session(session_id, tenant),))
    assert [heard(channel) for channel in (one, two, other)] == [1, 1, 1]
    for channel in (one, two, other):
        broadcaster.detach(channel)
    assert vars(broadcaster) == vars(Broadcaster())


def test_a_channel_hears_so_many_sessions_and_no_more() -> None:
    broadcaster = Broadcaster()
    channel, other = attach(broadcaster), attach(broadcaster)
    for number in range(MAX_SUBSCRIPTIONS):
        broadcaster.subscribe(channel, C1, SessionId(f"n{number}"))
    for session_id in (S1, SessionId("n0")):
        broadcaster.subscribe(channel, C1, session_id)
        broadcaster.subscribe(other, C1, session_id)
        broadcaster.broadcast((in_session(session_id),))
    assert (heard(channel), heard(other)) == (1, 2)
    broadcaster.forget(A, SessionId("n0"))
    broadcaster.subscribe(channel, C1, S1)
    broadcaster.broadcast((in_session(S1),))
    assert heard(channel) == 1


def test_what_a_channel_hears_and_how_far_can_be_asked() -> None:
    broadcaster = Broadcaster()
    channel, other = attach(broadcaster), attach(broadcaster, B)
    assert broadcaster.subscriptions(channel) == ()
    broadcaster.subscribe(channel, C1, S1)
    broadcaster.subscribe(channel, C1, S2, 7)
    broadcaster.broadcast((in_session(S1, seq=4),))
    assert {each.session_id: each.cursor for each in broadcaster.subscriptions(channel)} == {S1: 4, S2: 7}
    found = broadcaster.subscription(channel, S1)
    assert found is not None
    assert found.cursor == 4
    assert broadcaster.subscription(other, S1) is None
    broadcaster.detach(channel)
    assert broadcaster.subscriptions(channel) == ()
    assert broadcaster.subscription(channel, S1) is None


def test_without_deltas_whole_messages_are_told_and_the_place_is_kept() -> None:
    broadcaster = Broadcaster()
    lists, reads = attach(broadcaster), attach(broadcaster)
    broadcaster.follow(lists, C1, Follow.MESSAGES)
    # A command that would follow all of it changes nothing for a channel that follows it already.
    broadcaster.join(lists, C1, follow=True)
    broadcaster.subscribe(reads, C1, S1, deltas=True)
    whole = Interrupted(agent_id=AgentId("a"), container_id=C1)
    events = [in_session(seq=1), in_session(seq=2, data=whole), in_session(seq=3)]
    broadcaster.broadcast(events)
    assert [heard(channel) for channel in (lists, reads)] == [1, 3]
    subscription = broadcaster.subscription(lists, S1)
    assert subscription is not None
    assert (subscription.cursor, lists.lagging) == (3, {})
    broadcaster.subscribe(lists, C1, S1)
    assert not subscription.deltas
    broadcaster.subscribe(lists, C1, S1, deltas=True)
    broadcaster.broadcast([in_session(seq=4)])
    assert heard(lists) == 1


def test_a_channel_that_unsubscribes_hears_no_more_and_leaves_nothing() -> None:
    broadcaster = Broadcaster()
    channel = attach(broadcaster)
    broadcaster.subscribe(channel, C1, S1, after=5)
    broadcaster.unsubscribe(channel, S1)
    broadcaster.unsubscribe(channel, S2)
    broadcaster.broadcast((in_session(),))
    assert (heard(channel), channel.lagging, broadcaster.is_heard(A, S1)) == (0, {}, False)
    broadcaster.follow(channel, C1, Follow.MESSAGES)
    broadcaster.broadcast((in_session(seq=1),))
    broadcaster.subscribe(channel, C1, S2, deltas=True)
    broadcaster.follow(channel, C1, Follow.NONE)
    assert [one.session_id for one in broadcaster.subscriptions(channel)] == [S2]
