"""Kind — what a type of resource must be able to say about its content; one file for each beside this one.

Content is data: it is checked, its references are found and it is rendered, all without running anything or touching the
network.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from agentvm.errors.resource import ResourceInvalid, ResourceTooDeep
from agentvm.model.base import Record
from agentvm.model.ids import TenantId
from agentvm.model.resource import MAX_DEPTH, ResourceType, ResourceUri, VersionId, canonical
from agentvm.storage.resources import Node


class Content(Record, forbid_unknown_fields=True):
    """What a version holds. A member nobody knows is a typo, so refused."""


class Binary(Record, forbid_unknown_fields=True):
    """A binary part: `data` (base64) as it comes in, `blob` and `size` as it is kept."""

    data: bytes | None = None
    blob: str | None = None
    size: int | None = None


class Kind(Protocol):
    """One type of resource. Without state: one object for the process."""

    @property
    def type(self) -> ResourceType: ...

    @property
    def content(self) -> type[Content]:
        """What its content must be; `GET /v1/resources/types` shows its JSON Schema."""

    def check(self, content: Any) -> None:
        """What the types of the members cannot say; `ResourceInvalid` names the member."""

    def references(self, content: Any) -> Mapping[str, str]:
        """URIs in the content, by an alias that says where each stands (`systemPrompt`, `tools.0`)."""

    def text(self, content: Any) -> str:
        """What a search should find it by, besides its name, tags and description."""

    def render(self, scene: "Scene") -> object:
        """What somebody gets who uses it, as JSON: the table is in docs/resources.md."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A version that is being rendered, with what it is locked to, and the arguments of who asks."""

    viewer: TenantId
    """Who asks: URIs are written for them."""
    node: Node
    nodes: Mapping[VersionId, Node]
    kinds: Mapping[ResourceType, Kind]
    args: Mapping[str, object] = field(default_factory=dict)
    fragment: str | None = None
    depth: int = 0

    @property
    def uri(self) -> str:
        """With the exact version."""
        return exact_uri(self.node, self.viewer)

    @property
    def kind(self) -> Kind:
        return self.kinds[self.node.resource.type]

    @property
    def content(self) -> Any:
        """Of the kind's own type: the kind knows which."""
        return decode(self.kind, self.node.content)

    def follow(self, uri: str, args: Mapping[str, object] | None = None) -> "Scene":
        """What a URI of this version was locked to when it was published."""
        if self.depth >= MAX_DEPTH:
            raise ResourceTooDeep(f"References lead more than {MAX_DEPTH} levels down from {self.uri}")
        target = next(link.target for link in self.node.links if link.uri == uri)
        node = self.nodes[target]
        return Scene(
            viewer=self.viewer,
            node=node,
            nodes=self.nodes,
            kinds=self.kinds,
            args=self.args if args is None else args,
            fragment=uri.partition("#")[2] or None,
            depth=self.depth + 1,
        )

    def render(self) -> object:
        return self.kind.render(self)


def exact_uri(node: Node, viewer: TenantId) -> str:
    """With the exact version, and with the owner unless it is the viewer: one's own names need none."""
    one = node.resource
    owner = None if one.tenant_id == viewer else one.owner
    return str(ResourceUri(type=one.type, owner=owner, name=one.name, selector=node.version.version))


def accept(kind: Kind, raw: object) -> Content:
    """The content that somebody wants to publish; `ResourceInvalid` says what is wrong with it."""
    try:
        content: Content = msgspec.convert(raw, type=kind.content)
    except msgspec.ValidationError as error:
        raise ResourceInvalid(f"The content of {kind.type} does not fit: {error}") from None
    kind.check(content)
    return content


def decode(kind: Kind, body: bytes) -> Content:
    content: Content = msgspec.json.decode(body, type=kind.content)
    return content


def encode(content: Content) -> bytes:
    """The canonical bytes that are stored and digested."""
    return canonical(msgspec.to_builtins(content))
