"""Resources — the interface of the database for prompts, tools, sandboxes, agents, knowledge and skills.

`store.resources(tenant_id)` is one tenant's view: its own resources, and those that others have made public. It writes only
its own. A resource that is neither its own nor public does not exist for it, except through a lock: everything that a visible
version or an image of the tenant is locked to stays readable, even if its owner has hidden or deleted it since. Conformance:
`tests.conformance.resources`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from agentvm.model.ids import ImageId
from agentvm.model.resource import Resource, ResourceId, ResourceType, ResourceVersion, VersionId, Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDependency:
    """`target` is a version that is there, or the place in the same batch of one that is published with it."""

    alias: str
    uri: str
    """The URI as written by the publisher."""
    target: VersionId | int
    floating: bool
    """Whether another version may be meant tomorrow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A version to be stored, and with it the resource if there is none of this name yet.

    `description`, `tags`, `visibility` and `deprecated` are of the resource: None leaves them unchanged.
    """

    resource_id: ResourceId
    """The id of the resource, if this publication creates it."""
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
    """The text to search; a store may leave out all beyond its first 100,000 characters."""
    description: str | None = None
    tags: tuple[str, ...] | None = None
    visibility: Visibility | None = None
    """Resources of the server's own tenant are always public."""
    deprecated: str | None = None
    pointer: str | None = None
    """A tag that is to point to the version."""
    is_new: bool = False
    """Requires that no resource of this name exists, or one with this very version."""
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
class VersionHistory:
    """The versions of a resource, lowest first by rank, withdrawn ones too; and its tags, without `latest`."""

    versions: tuple[ResourceVersion, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    """The version that each points to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """An edge of a closure: a version's URI and the version it was locked to."""

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
    """A search for resources; every field that is given narrows it."""

    text: str | None = None
    """Words, each of which must be there, or one that begins with it. Spaces are no text; a text without words finds nothing.
    """
    type: ResourceType | None = None
    tag: str | None = None
    owner: str | None = None
    """The slug of a tenant."""
    visibility: Visibility | None = None
    scope: Literal["own", "public", "all"] = "all"
    """`public` means the public resources of other tenants and of the server."""
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
    """The content of the latest version, if it was requested and there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hits:
    """One page, and how many there are on all pages."""

    items: tuple[Hit, ...]
    total: int
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependents:
    """The dependents of a resource: those of the own tenant by name, of others the number."""

    resources: tuple[tuple[Resource, str], ...]
    """With the version that depends."""
    images: tuple[ImageId, ...]
    foreign: int
    image_names: tuple[str, ...] = ()
    """The names of the images, in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Changes without a new version. None leaves a field; an empty text removes it."""

    description: str | None = None
    tags: tuple[str, ...] | None = None
    visibility: Visibility | None = None
    deprecated: str | None = None
