"""Broadcaster — tells channels what happened: each event is encoded once, and only if somebody listens.

An event of a session goes to the session's subscribers and to those who follow its container, one without a session to those
who work with the container and may read what it tells (`EventData.needs`). Nobody else hears of it.
"""

from typing import TypeVar

from agentvm.events.base import Event
from agentvm.model.ids import ContainerId, SessionId, TenantId
from agentvm.protocol.dialect_v1 import encode_event
from agentvm.runtime.channel import Channel, Subscription

MAX_JOINED = MAX_SUBSCRIPTIONS = 10_000
"""Containers one channel can work with, and sessions it can hear: a peer must not grow our memory by naming them."""

# Dicts, not sets: listeners hear in the order they came, run after run.
Listeners = dict[Channel, bool]
"""Whether the channel follows the container: it hears all of its sessions, also those that are yet to come."""
Subscribers = dict[Channel, Subscription]


class Broadcaster:
    """Who listens to what."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[TenantId, SessionId], Subscribers] = {}
        self._containers: dict[tuple[TenantId, ContainerId], Listeners] = {}
        self._channels: dict[Channel, tuple[set[SessionId], set[ContainerId]]] = {}

    @property
    def channels(self) -> tuple[Channel, ...]:
        return tuple(self._channels)

    def attach(self, channel: Channel) -> None:
        self._channels[channel] = (set(), set())

    def detach(self, channel: Channel) -> None:
        sessions, containers = self._channels.pop(channel, (set(), set()))
        tenant = channel.principal.tenant_id
        for session_id in sessions:
            _forget(self._sessions, (tenant, session_id), channel)
        for container_id in containers:
            _forget(self._containers, (tenant, container_id), channel)

    def subscribe(self, channel: Channel, container_id: ContainerId, session_id: SessionId, after: int | None = None) -> None:
        """The caller has made sure that the session is the principal's. With `after`, what followed that seq comes first."""
        known = self._channels[channel][0] if channel in self._channels else None
        if known is None or (len(known) >= MAX_SUBSCRIPTIONS and session_id not in known):
            return
        known.add(session_id)
        subscribers = self._sessions.setdefault((channel.principal.tenant_id, session_id), {})
        subscription = subscribers.setdefault(channel, Subscription(container_id, session_id))
        if after is not None:
            subscription.cursor = after
            channel.fall_behind(subscription)

    def subscription(self, channel: Channel, session_id: SessionId) -> Subscription | None:
        return self._sessions.get((channel.principal.tenant_id, session_id), {}).get(channel)

    def subscriptions(self, channel: Channel) -> tuple[Subscription, ...]:
        """Of every session that the channel hears."""
        known = self._channels[channel][0] if channel in self._channels else ()
        return tuple(self._sessions[channel.principal.tenant_id, session_id][channel] for session_id in known)

    def forget(self, tenant_id: TenantId, session_id: SessionId) -> None:
        """The session is gone: nothing will be told of it any more."""
        for channel, subscription in self._sessions.pop((tenant_id, session_id), {}).items():
            self._channels[channel][0].discard(session_id)
            channel.lagging.pop(subscription, None)

    def join(self, channel: Channel, container_id: ContainerId, *, follow: bool = False) -> None:
        """From now on the channel hears what happens to the container itself, and with `follow` in all of its sessions."""
        if channel in self._channels and len(self._channels[channel][1]) < MAX_JOINED:
            self._channels[channel][1].add(container_id)
            listeners = self._containers.setdefault((channel.principal.tenant_id, container_id), {})
            listeners[channel] = follow or listeners.get(channel, False)

    def is_heard(self, tenant_id: TenantId, session_id: SessionId) -> bool:
        return (tenant_id, session_id) in self._sessions

    def joined(self, channel: Channel) -> frozenset[ContainerId]:
        return frozenset(self._channels[channel][1]) if channel in self._channels else frozenset()

    def react(self, event: Event) -> None:
        container_id, session_id = event.scope.container_id, event.scope.session_id
        if container_id is None:
            return
        listeners = self._containers.get((event.tenant_id, container_id), {})
        if session_id is not None:
            for channel, follows in listeners.items():
                # Whoever sent: every device of a user sees the same.
                if follows and session_id not in self._channels[channel][0]:
                    self.subscribe(channel, container_id, session_id)
            subscribers = self._sessions.get((event.tenant_id, session_id))
            if subscribers:
                _deliver(event, subscribers)
        elif listeners and (frame := encode_event(event)) is not None:
            needs = event.data.needs
            for channel in listeners:
                if needs is None or channel.principal.may(needs):
                    channel.send(frame)


def _deliver(event: Event, subscribers: Subscribers) -> None:
    frame = encode_event(event)
    for channel, subscription in subscribers.items():
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
