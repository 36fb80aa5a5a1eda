"""Resources — what the rest of AgentVM may ask of a database about prompts, tools, sandboxes, agents and knowledge.

`store.resources(tenant_id)` is one tenant's view: its own resources, and those that others have made public. It writes only its
own. What is neither its own nor public is not there, except through a lock: whatever a version that can be seen, or an image of
the tenant, was locked to stays readable by it, also when its owner has hidden or deleted it since. Conformance:
`agentvm.testing.conformance.resources`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from agentvm.model.ids import ImageId
from agentvm.model.resource import Resource, ResourceId, ResourceType, ResourceVersion, VersionId, Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDependency:
    """`target` is a version that is there, or the place in the same batch of one that is published with it."""

    alias: str
    uri: str
    """As it was written."""
    target: VersionId | int
    floating: bool
    """Whether another version may be meant tomorrow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A version to be stored, and with it the resource if there is none of this name yet.

    `description`, `tags`, `visibility` and `deprecated` are of the resource: None leaves what is there.
    """

    resource_id: ResourceId
    """Of the resource, if this publication makes it."""
    version_id: VersionId
    type: ResourceType
    name: str
    version: str
    digest: str
    content: bytes
    """Canonical JSON."""
    blobs: Mapping[str, bytes] = field(default_factory=dict)
    """Binary parts that are new, by digest."""
    kept_blobs: frozenset[str] = frozenset()
    """Binary parts that some version in view holds already, by digest."""
    schema: Mapping[str, object] | None = None
    dependencies: Sequence[NewDependency] = ()
    text: str = ""
    """What is searched; a store may leave out what is beyond its first 100,000 characters."""
    description: str | None = None
    tags: tuple[str, ...] | None = None
    visibility: Visibility | None = None
    """What the server's own tenant publishes is public, whatever this says."""
    deprecated: str | None = None
    pointer: str | None = None
    """A tag that is to point to the version."""
    is_new: bool = False
    """There must be no resource of this name yet, or one with this very version."""
    expected: str | None = None
    """The digest that the latest version must have."""
    created_by: str
    now: int


@dataclass(frozen=True, slots=True)
class Published:
    """`created` is False when the very same version was there already; then nothing was changed."""

    resource: Resource
    version: ResourceVersion
    created: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The versions of a resource, lowest first by rank, withdrawn ones too; and its tags, without `latest`."""

    versions: tuple[ResourceVersion, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    """The version that each points to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """An edge of a closure: what a version's URI was locked to."""

    alias: str
    uri: str
    target: VersionId
    floating: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One version of a closure."""

    resource: Resource
    version: ResourceVersion
    content: bytes
    links: tuple[Link, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What to look for; every member that is given narrows it."""

    text: str | None = None
    """Words, each of which must be there, or one that begins with it. Spaces are no text; what has no word finds nothing."""
    type: ResourceType | None = None
    tag: str | None = None
    owner: str | None = None
    """A slug."""
    visibility: Visibility | None = None
    scope: Literal["own", "public", "all"] = "all"
    """`public` is what others, and the server, have made public."""
    depends_on: ResourceId | None = None
    after: str | None = None
    """The `next` of the page before; `InvalidInput` for anything else."""
    limit: int = 20
    with_content: bool = False
    """Whether each hit brings the content of its latest version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A resource that was found; `uses` is how many versions and images are locked to it, whosever they are."""

    resource: Resource
    uses: int
    content: bytes | None = None
    """Of the latest version, if it was asked for and there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hits:
    """One page, and how many there are on all pages."""

    items: tuple[Hit, ...]
    total: int
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependents:
    """Who is locked to a resource: of the own tenant each, of others how many."""

    resources: tuple[tuple[Resource, str], ...]
    """With the version that depends."""
    images: tuple[ImageId, ...]
    foreign: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What may be changed without a new version. None leaves it; an empty text removes it."""

    description: str | None = None
    tags: tuple[str, ...] | None = None
    visibility: Visibility | None = None
    deprecated: str | None = None


class ResourceStore(Protocol):
    """One tenant's view."""

    async def find(self, kind: ResourceType, name: str, owner: str | None = None) -> Resource | None:
        """Of that owner, if it may be seen; without one the own, then the server's. Deleted ones are not there."""

    async def get(self, resource_id: ResourceId) -> Resource | None: ...

    async def history(self, resource_id: ResourceId, only: str | None = None) -> History:
        """Empty when the resource is not in view. With `only`, of its versions just that one, whatever its build.

        Of others only what everything it is locked to was public for: a version that was withdrawn before its resource
        became public may be locked to private ones, and is then not shown.
        """

    async def find_locked(self, kind: ResourceType, name: str, owner: str | None, digest: str) -> VersionId | None:
        """A version that is out of view but that something of the own tenant is locked to: hidden or deleted since."""

    async def closure(self, version_id: VersionId, *, limit: int) -> dict[VersionId, Node]:
        """The version and everything it is locked to, at most so many; empty when it is not in view.

        In view are the versions of resources in view, and those that something of the own tenant is locked to.
        """

    async def publish(self, publications: Sequence[Publication]) -> tuple[Published, ...]:
        """All of them in one commit, or none.

        `ResourceExists`, `ResourceVersionExists`, `PreconditionFailed`; `ResourceNotFound` when a target is gone meanwhile;
        `ResourceCycle` when floating references of latest versions would lead back to the resource;
        `ResourceVisibilityConflict` when a public resource would be locked to a private one; `Conflict` for the name of a
        resource that was deleted by force less than 30 days ago; `NotFound` when the tenant was deleted.
        """

    async def change(self, resource_id: ResourceId, changes: Changes, now: int) -> Resource | None:
        """None when there is none of its own. `ResourceVisibilityConflict` as for `publish`."""

    async def point(self, resource_id: ResourceId, tag: str, version: str | None, now: int) -> bool:
        """Lets a tag point to a version, or removes it for None; False when either is not there."""

    async def yank(self, resource_id: ResourceId, version: str, at: int | None, now: int) -> ResourceVersion | None:
        """Withdraws a version, or for `at=None` brings it back; the latest is found anew. None when it is not there.

        `ResourceVisibilityConflict` as for `publish` when a version of a public resource is brought back.
        """

    async def delete(self, resource_id: ResourceId, *, force: bool, now: int) -> bool:
        """False when there is none of its own. `ResourceInUse` unless `force`, which keeps what others are locked to.

        Its `details` name the own `referrers` (URIs with their versions, then ids of images) and count the `foreign` ones.
        """

    async def search(self, search: Search) -> Hits:
        """Best first if there is a text, else by name."""

    async def dependents(self, resource_id: ResourceId) -> Dependents: ...

    async def count(self) -> int:
        """Of its own, without deleted ones."""

    async def blob_size(self, digest: str) -> int | None:
        """None unless a version in view holds it: whoever only knows a digest has no right to what it names."""

    async def blob(self, version_id: VersionId, digest: str) -> bytes | None:
        """A binary part of a version in view."""


__all__ = [
    "Changes", "Dependents", "History", "Hit", "Hits", "Link", "NewDependency", "Node", "Publication", "Published",
    "ResourceStore", "Search",
]  # fmt: skip
