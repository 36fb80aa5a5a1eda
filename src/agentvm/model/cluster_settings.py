"""Cluster settings — whether this server is one node of several, and how long the others wait for it."""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from agentvm.model.secret import Secret
from agentvm.model.setting import Group, OnOff, Text, setting


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ClusterSettings(Group):
    """Several servers, the nodes of a cluster, over one PostgreSQL database."""

    enabled: Annotated[
        OnOff,
        setting(
            "Whether this server shares its PostgreSQL database with others, as one node of several.",
            "boot",
            variable="AVM_CLUSTER",
        ),
    ] = "off"
    name: Annotated[
        Text | None,
        setting("Name of this node in lists and logs.", "boot", variable="AVM_NODE", unset="the name of the machine"),
    ] = None
    nats: Annotated[
        Secret | None,
        setting(
            "NATS servers for faster messages between nodes: `nats://user:password@host:4222`, several with commas.",
            "boot",
            variable="AVM_NATS",
            unset="nodes read the database four times a second",
        ),
    ] = None
    lease_seconds: Annotated[
        Annotated[float, Meta(ge=1, le=60)],
        setting("Time without a sign of life after which a node is declared dead, and others continue its turns.", "boot"),
    ] = 3.0
