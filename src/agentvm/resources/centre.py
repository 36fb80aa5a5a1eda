"""ResourceCentre — everything about resources that a running server has."""

from dataclasses import dataclass

from agentvm.model.ids import Clock, NewId
from agentvm.resources.kinds import KINDS
from agentvm.resources.registry import Registry
from agentvm.resources.resolver import Resolver
from agentvm.storage.sql.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceCentre:
    """The parts of a server that deal with resources."""

    store: Store
    """The store, for callers that only read."""
    resolver: Resolver
    registry: Registry


def make_centre(store: Store, clock: Clock, new_id: NewId) -> ResourceCentre:
    resolver = Resolver(store, KINDS, clock)
    return ResourceCentre(store=store, resolver=resolver, registry=Registry(store, resolver, KINDS, clock, new_id))
