"""Broadcaster — sends events to channels: each event is encoded once per dialect, and only if a channel receives it.

An event of a session is sent to the subscribers of the session and of its container; an event without a session to the
channels that use the container and have the permission for it (`EventData.needs`). No other channel receives it.
"""

from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import groupby
from operator import attrgetter
from typing import Protocol, TypeVar

from agentvm.events.base import Event
from agentvm.model.ids import ContainerId, SessionId, TenantId, is_sub_session
from agentvm.protocol.codec import Frame
from agentvm.runtime.channel import Channel, Encode, Subscription

JOINED_MAX = MAX_SUBSCRIPTIONS = 10_000
"""Containers one channel can work with, and sessions it can hear: a peer must not grow our memory by naming them."""


class Follow(IntEnum):
    """The sessions of a container that a channel is subscribed to, including later ones: none, all, or all without deltas."""

    NONE = 0
    MESSAGES = 1
    ALL = 2


# Dicts, not sets: listeners hear in the order they came, run after run.
Listeners = dict[Channel, Follow]
Subscribers = dict[Channel, Subscription]


class Wakeable(Protocol):
    """Reads a session's events by itself; see `agentvm.runtime.follow`."""

    @property
    def container_id(self) -> ContainerId: ...

    def wake(self, events: Sequence[Event]) -> None:
        """Called after events of the session; the passed events are those that are not in a log."""


class Interest(Protocol):
    """Called with the containers that local channels are subscribed to. Gained as often as lost."""

    def gain(self, tenant_id: TenantId, container_id: ContainerId) -> None: ...

    def lose(self, tenant_id: TenantId, container_id: ContainerId) -> None: ...


class Broadcaster:
    """The channels, and the sessions and containers that each is subscribed to."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[TenantId, SessionId], Subscribers] = {}
        self._containers: dict[tuple[TenantId, ContainerId], Listeners] = {}
        self._followers: dict[tuple[TenantId, SessionId], dict[Wakeable, None]] = {}
        # Lists, since most channels have one of each; whether one is in there, the two tables above say.
        self._channels: dict[Channel, tuple[list[SessionId], list[ContainerId]]] = {}
        self.interest: Interest | None = None
        """In a cluster: fetches events of other nodes."""
        self.own: Channel | None = None
        """The channel of the program that the server runs in."""

    @property
    def channels(self) -> tuple[Channel, ...]:
        return tuple(self._channels)

    def count_connected(self) -> int:
        """The clients that are connected, without the program that the server runs in."""
        return len(self._channels) - (self.own in self._channels)

    def attach(self, channel: Channel) -> None:
        self._channels[channel] = ([], [])

    def detach(self, channel: Channel) -> None:
        sessions, containers = self._channels.pop(channel, ((), ()))
        tenant = channel.principal.tenant_id
        # One that is attached again, as another kind of client, continues with none of its subscriptions.
        channel.lagging.clear()
        for session_id in sessions:
            _forget(self._sessions, (tenant, session_id), channel)
        for container_id in containers:
            _forget(self._containers, (tenant, container_id), channel)
            if self.interest is not None:
                self.interest.lose(tenant, container_id)

    def subscribe(
        self,
        channel: Channel,
        container_id: ContainerId,
        session_id: SessionId,
        after: int | None = None,
        deltas: bool | None = None,
    ) -> None:
        """The caller has made sure that the session is the principal's. With `after`, the events after that seq come first.

        Without `deltas` an existing subscription is not changed, and a new one is like that of its container.
        """
        if channel not in self._channels:
            return
        subscription = self.subscription(channel, session_id)
        if subscription is None:
            sessions = self._channels[channel][0]
            if len(sessions) >= MAX_SUBSCRIPTIONS:
                return
            sessions.append(session_id)
            subscription = Subscription(container_id, session_id)
            subscription.deltas = self._follow(channel, container_id) is not Follow.MESSAGES
            self._sessions.setdefault((channel.principal.tenant_id, session_id), {})[channel] = subscription
        if deltas is not None:
            subscription.deltas = deltas
        if after is not None:
            subscription.cursor = after
            channel.fall_behind(subscription)

    def subscription(self, channel: Channel, session_id: SessionId) -> Subscription | None:
        return self._sessions.get((channel.principal.tenant_id, session_id), {}).get(channel)

    def subscriptions(self, channel: Channel) -> tuple[Subscription, ...]:
        """Returns the subscriptions of a channel."""
        names = self._channels[channel][0] if channel in self._channels else ()
        return tuple(self._sessions[channel.principal.tenant_id, session_id][channel] for session_id in names)

    def unsubscribe(self, channel: Channel, session_id: SessionId) -> None:
        """From now on the channel receives the session's events only through its container."""
        subscription = self.subscription(channel, session_id)
        if subscription is not None:
            self._channels[channel][0].remove(session_id)
            _forget(self._sessions, (channel.principal.tenant_id, session_id), channel)
            channel.keep_up(subscription)

    def forget(self, tenant_id: TenantId, session_id: SessionId) -> None:
        """The session was deleted: no further events are sent."""
        for channel, subscription in self._sessions.pop((tenant_id, session_id), {}).items():
            self._channels[channel][0].remove(session_id)
            channel.keep_up(subscription)
        self._wake(tenant_id, session_id, ())

    def add_follower(self, tenant_id: TenantId, session_id: SessionId, follower: Wakeable) -> None:
        """From now on the follower is woken by events of the session. The caller has made sure that it may read it."""
        self._followers.setdefault((tenant_id, session_id), {})[follower] = None
        if self.interest is not None:
            self.interest.gain(tenant_id, follower.container_id)

    def remove_follower(self, tenant_id: TenantId, session_id: SessionId, follower: Wakeable) -> None:
        followers = self._followers.get((tenant_id, session_id), {})
        if follower in followers and self.interest is not None:
            self.interest.lose(tenant_id, follower.container_id)
        followers.pop(follower, None)
        if not followers:
            self._followers.pop((tenant_id, session_id), None)

    def _wake(self, tenant_id: TenantId, session_id: SessionId, events: Sequence[Event]) -> None:
        for follower in self._followers.get((tenant_id, session_id), ()):
            follower.wake(events)

    def join(self, channel: Channel, container_id: ContainerId, *, follow: bool = False) -> None:
        """From now on the channel receives the events of the container itself, and with `follow` of all its sessions.

        A channel that follows the container already continues as it does.
        """
        if channel in self._channels and len(self._channels[channel][1]) < JOINED_MAX:
            listeners = self._containers.setdefault((channel.principal.tenant_id, container_id), {})
            if channel not in listeners:
                self._channels[channel][1].append(container_id)
                if self.interest is not None:
                    self.interest.gain(channel.principal.tenant_id, container_id)
            listeners[channel] = listeners.get(channel) or (Follow.ALL if follow else Follow.NONE)

    def follow(self, channel: Channel, container_id: ContainerId, follow: Follow) -> None:
        """From now on the channel receives these events of the container's sessions, and of sessions that it has subscribed to
        with deltas."""
        self.join(channel, container_id)
        listeners = self._containers.get((channel.principal.tenant_id, container_id), {})
        if channel in listeners:
            listeners[channel] = follow
        for subscription in self.subscriptions(channel) if follow is Follow.NONE else ():
            if subscription.container_id == container_id and not subscription.deltas:
                self.unsubscribe(channel, subscription.session_id)

    def _follow(self, channel: Channel, container_id: ContainerId) -> Follow:
        return self._containers.get((channel.principal.tenant_id, container_id), {}).get(channel, Follow.NONE)

    def is_heard(self, tenant_id: TenantId, session_id: SessionId) -> bool:
        return (tenant_id, session_id) in self._sessions

    @property
    def listens(self) -> bool:
        """Whether there is any subscription."""
        return bool(self._sessions or self._followers or self._containers)

    def is_wanted(self, tenant_id: TenantId, container_id: ContainerId, session_id: SessionId) -> bool:
        """Whether the session has subscribers, or its container has."""
        key = (tenant_id, session_id)
        listeners = self._containers.get((tenant_id, container_id), {})
        is_heard = any(listeners.values()) and not is_sub_session(session_id)
        return key in self._sessions or key in self._followers or is_heard

    def followed(self) -> Iterator[tuple[TenantId, ContainerId, SessionId]]:
        """Yields the sessions with subscribers."""
        for (tenant_id, session_id), subscribers in self._sessions.items():
            yield tenant_id, next(iter(subscribers.values())).container_id, session_id
        for (tenant_id, session_id), followers in self._followers.items():
            if (tenant_id, session_id) not in self._sessions:
                yield tenant_id, next(iter(followers)).container_id, session_id

    def catch_up(self, tenant_id: TenantId, container_id: ContainerId, session_id: SessionId, before: int) -> None:
        """Lets the subscribers of the session continue from the log, which has events after `before` that were not sent
        here."""
        listeners = {} if is_sub_session(session_id) else self._containers.get((tenant_id, container_id), {})
        for channel, follows in listeners.items():
            if follows is not Follow.NONE and self.subscription(channel, session_id) is None:
                self.subscribe(channel, container_id, session_id)
        for channel, subscription in self._sessions.get((tenant_id, session_id), {}).items():
            if subscription.cursor is None:
                subscription.cursor = before
            if channel.closing is None:
                channel.fall_behind(subscription)
        self._wake(tenant_id, session_id, ())

    def joined(self, channel: Channel) -> frozenset[ContainerId]:
        return frozenset(self._channels[channel][1]) if channel in self._channels else frozenset()

    def broadcast(self, events: Sequence[Event]) -> None:
        """Sends the events to those who listen. An event is encoded once per dialect, for any number of clients."""
        for (tenant_id, scope), some in groupby(events, _PLACE):
            container_id, session_id = scope.container_id, scope.session_id
            if container_id is None:
                continue
            listeners = self._containers.get((tenant_id, container_id), {})
            if session_id is None:
                _send(list(some), listeners)
                continue
            for channel, follows in () if is_sub_session(session_id) else listeners.items():
                # Whoever sent: every device of a user sees the same.
                if follows is not Follow.NONE and self.subscription(channel, session_id) is None:
                    self.subscribe(channel, container_id, session_id)
            subscribers = self._sessions.get((tenant_id, session_id))
            is_followed = (tenant_id, session_id) in self._followers
            if (subscribers or is_followed) and (visible := [event for event in some if event.data.told]):
                if subscribers:
                    _deliver(visible, subscribers)
                if is_followed:
                    self._wake(tenant_id, session_id, [event for event in visible if not event.seq])


_PLACE = attrgetter("tenant_id", "scope")


def _send(events: Sequence[Event], listeners: Listeners) -> None:
    for event in events:
        frames: dict[Encode, Frame | None] = {}
        for channel in listeners:
            if event.data.needs is None or channel.principal.may(event.data.needs):
                if channel.encode not in frames:
                    frames[channel.encode] = channel.encode(event)
                frame = frames[channel.encode]
                if frame is not None:
                    channel.send(frame)


def _deliver(events: Sequence[Event], subscribers: Subscribers) -> None:
    encoded: dict[Encode, list[Frame | None]] = {}
    for channel, subscription in subscribers.items():
        frames = encoded.get(channel.encode)
        if frames is None:
            frames = encoded[channel.encode] = [channel.encode(event) for event in events]
        if not subscription.deltas:
            frames = [frame if subscription.tells(event) else None for event, frame in zip(events, frames, strict=True)]
        _feed(channel, subscription, events, frames)


def _feed(channel: Channel, subscription: Subscription, events: Sequence[Event], frames: Sequence[Frame | None]) -> None:
    """Offers an event to a subscription: one without a number, which could not be stored, in any case; others without a gap."""
    first, last = events[0].seq, events[-1].seq
    whole = [frame for frame in frames if frame is not None]
    if first and last - first == len(whole) - 1 and subscription not in channel.lagging:
        if subscription.cursor is None:
            subscription.cursor = first - 1
        if subscription.cursor == first - 1:
            subscription.cursor += channel.offer_all(whole)
            if subscription.cursor < last and channel.closing is None:
                channel.fall_behind(subscription)
            return
    for event, frame in zip(events, frames, strict=True):
        if not event.seq:
            if frame is not None:
                channel.send(frame)
            continue
        if subscription in channel.lagging:
            continue
        if subscription.cursor is None:
            subscription.cursor = event.seq - 1
        if event.seq == subscription.cursor + 1 and (frame is None or channel.offer(frame)):
            subscription.cursor = event.seq
        elif event.seq > subscription.cursor and channel.closing is None:
            channel.fall_behind(subscription)


K = TypeVar("K")


def _forget(index: dict[K, Listeners] | dict[K, Subscribers], key: K, channel: Channel) -> None:
    listeners = index.get(key)
    if listeners is not None:
        listeners.pop(channel, None)
        if not listeners:
            del index[key]
