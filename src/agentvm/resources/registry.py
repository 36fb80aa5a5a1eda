"""Registry — publishes resources: checks them, locks their references, and stores versions that never change."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import anyio.to_thread
import msgspec
from msgspec import UNSET, UnsetType

from agentvm.errors import AccessDenied, AgentVMError, InvalidInput, PermissionDenied, shorten
from agentvm.errors.resource import ResourceCycle, ResourceInvalid, ResourceNotFound, ResourceTooLarge, ResourceVersionExists
from agentvm.model.ids import Clock, NewId, TenantId
from agentvm.model.resource import (
    CONTENT_MAX_BYTES,
    NODES_MAX,
    SYSTEM_TENANT,
    Resource,
    ResourceId,
    ResourceType,
    ResourceUri,
    ResourceVersion,
    VersionId,
    Visibility,
    check_name,
    check_tag,
    describe_versions,
    latest_of,
    parse_uri,
    version_digest,
)
from agentvm.model.semver import Bump, Version, parse_version
from agentvm.resources.kind import Content, ResourceKind, accept, binaries, check_description, check_words, detach, encode
from agentvm.resources.resolver import Resolver, VersionClosure, check_size
from agentvm.resources.schema import check_schema
from agentvm.resources.skill import SkillContent, check_named, description_of
from agentvm.storage.resources import Changes, NewDependency, Node, Publication, Published

if TYPE_CHECKING:
    from agentvm.storage.sql.resources import ResourceStore
    from agentvm.storage.sql.store import Store

FIRST = "1.0.0"
INDEXED_TEXT_MAX = 32_768
"""Characters of a version that are searched."""
ALIAS_MAX = 128
NUMBERING_ATTEMPTS_MAX = 5
"""Attempts to number a version without an explicit number, because another writer may take the number first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """The writer; `actor` is for the record."""

    tenant_id: TenantId
    actor: str
    may_publish: bool
    """Whether their resources may be public."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVersion:
    """A version to publish. `content` is as received."""

    type: ResourceType
    name: str
    content: object
    version: str | None = None
    schema: dict[str, object] | None = None
    dependencies: Mapping[str, str] | None = None
    """URIs by alias, besides those in the content."""
    description: str | None = None
    tags: tuple[str, ...] | None = None
    visibility: Visibility | None = None
    deprecated: str | None = None
    pointer: str | None = None


NO_CHANGES = Changes()


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChange:
    """A new version of an existing resource: absent fields stay. Either `version` or `bump` sets its number."""

    content: object = None
    schema: dict[str, object] | UnsetType | None = UNSET
    """None is a version without one."""
    dependencies: Mapping[str, str] | None = None
    version: str | None = None
    bump: Bump = "patch"
    changes: Changes = NO_CHANGES
    pointer: str | None = None
    expected: str | None = None
    """The digest that the latest version must have."""


Targets = Mapping[str, VersionId | int]


@dataclass(frozen=True, slots=True)
class _Read:
    """The checked parts of a draft that need no look at other resources."""

    content: Content
    body: bytes
    blobs: dict[str, bytes]
    kept: frozenset[str]
    references: dict[str, str]
    digest: str
    text: str


class Registry:
    """Publishes, changes and deletes the resources of all tenants."""

    def __init__(
        self, store: "Store", resolver: Resolver, kinds: Mapping[ResourceType, ResourceKind], clock: Clock, new_id: NewId
    ) -> None:
        self._store = store
        self._resolver = resolver
        self._kinds = kinds
        self.clock = clock
        self.new_id = new_id

    async def register(self, author: Author, draft: NewVersion, *, dry_run: bool = False) -> Published:
        """Creates a resource. `ResourceExists` when the name is taken, unless by the very same version."""
        publication = await self.prepare(author, draft)
        return (await self.publish(author, [replace(publication, is_new=True)], dry_run=dry_run))[0]

    async def revise(
        self, author: Author, resource_id: ResourceId, revision: VersionChange, *, dry_run: bool = False
    ) -> Published:
        """A new version of an own resource; a dry run checks it and stores nothing."""
        resource = await self.own(author, resource_id)
        for attempt in range(NUMBERING_ATTEMPTS_MAX):
            history = await self._view(author).history(resource_id)
            version = revision.version or str(_next(history.versions, revision.bump))
            draft = await self._revised(author, resource, latest_of(history.versions), revision, version)
            publication = await self.prepare(author, draft)
            try:
                ready = replace(publication, expected=revision.expected)
                (published,) = await self.publish(author, [ready], dry_run=dry_run)
            except ResourceVersionExists:
                if revision.version is not None or attempt == NUMBERING_ATTEMPTS_MAX - 1:
                    raise
            else:
                return published
        raise AssertionError("unreachable")

    async def prepare(self, author: Author, draft: NewVersion, targets: Targets | None = None) -> Publication:
        """Does every check that is possible before the commit. `targets` is the target of each alias, if known."""
        name, version = check_name(draft.name), draft.version or FIRST
        parse_version(version)
        # Large contents take a while, and others wait for the same loop.
        read = await anyio.to_thread.run_sync(_read, self._kinds[draft.type], draft)
        size = len(read.body) + sum(map(len, read.blobs.values()))
        size += await self._check_kept(author, read.content, read.kept - read.blobs.keys())
        _check_content(size)
        self._check_visibility(author, draft.visibility)
        dependencies = await self._lock(author, draft, read.references, targets)
        return Publication(
            resource_id=ResourceId(self.new_id("res")),
            version_id=VersionId(self.new_id("rver")),
            type=draft.type,
            name=name,
            version=version,
            digest=read.digest,
            content=read.body,
            blobs=read.blobs,
            kept_blobs=read.kept,
            schema=draft.schema,
            dependencies=dependencies,
            text=read.text,
            description=check_description(description_of(draft.description, read.content)),
            tags=check_words(draft.tags),
            visibility=draft.visibility,
            deprecated=check_description(draft.deprecated),
            pointer=None if draft.pointer is None else check_tag(draft.pointer),
            created_by=author.actor,
            now=self.clock(),
        )

    async def publish(
        self, author: Author, publications: Sequence[Publication], *, dry_run: bool = False
    ) -> tuple[Published, ...]:
        try:
            return await self._view(author).publish(publications, dry_run=dry_run)
        finally:
            self._resolver.forget()

    async def change(self, author: Author, resource_id: ResourceId, changes: Changes) -> Resource:
        """Changes the fields that need no new version."""
        await self.own(author, resource_id)
        self._check_visibility(author, changes.visibility)
        check_description(changes.description)
        check_description(changes.deprecated)
        check_words(changes.tags)
        changed = await self._view(author).change(resource_id, changes, self.clock())
        self._resolver.forget()
        if changed is None:
            raise ResourceNotFound(resource_id)
        return changed

    async def point(self, author: Author, resource_id: ResourceId, tag: str, version: str | None) -> None:
        """Lets a tag point to a version, or removes the tag."""
        resource = await self.own(author, resource_id)
        if not await self._view(author).point(resource_id, check_tag(tag), version, self.clock()):
            raise await self._lacks(author, resource, tag if version is None else version)
        self._resolver.forget()

    async def yank(self, author: Author, resource_id: ResourceId, version: str, *, yanked: bool) -> ResourceVersion:
        resource = await self.own(author, resource_id)
        now = self.clock()
        version_found = await self._view(author).yank(resource_id, version, now if yanked else None, now)
        self._resolver.forget()
        if version_found is None:
            raise await self._lacks(author, resource, version)
        return version_found

    async def delete(self, author: Author, resource_id: ResourceId, *, force: bool) -> None:
        await self.own(author, resource_id)
        deleted = await self._view(author).delete(resource_id, force=force, now=self.clock())
        self._resolver.forget()
        if not deleted:
            raise ResourceNotFound(resource_id)

    async def find(self, tenant_id: TenantId, named: str) -> Resource:
        """Finds a resource by id or URI, whichever version the URI names."""
        view = self._store.resources(tenant_id)
        if "/" in named or ":" in named:
            uri = parse_uri(named)
            resource = await view.find(uri.type, uri.name, uri.owner)
        else:
            resource = await view.get(ResourceId(named))
        if resource is None:
            raise ResourceNotFound(named)
        return resource

    async def own(self, author: Author, resource_id: ResourceId) -> Resource:
        """Returns an own resource; `AccessDenied` for one that is visible but belongs to another tenant."""
        resource = await self._view(author).get(resource_id)
        if resource is None:
            raise ResourceNotFound(resource_id)
        if resource.tenant_id != author.tenant_id:
            whose = "ships with the server" if resource.tenant_id == SYSTEM_TENANT else f"belongs to {resource.owner}"
            raise AccessDenied(f"{resource.name} {whose} and cannot be changed; register one of your own instead")
        return resource

    async def _lacks(self, author: Author, resource: Resource, selector: str) -> ResourceNotFound:
        history = await self._view(author).history(resource.resource_id)
        uri = ResourceUri(type=resource.type, name=resource.name, selector=selector)
        return ResourceNotFound(str(uri), describe_versions(history.versions, history.tags))

    def _view(self, author: Author) -> "ResourceStore":
        return self._store.resources(author.tenant_id)

    def _check_visibility(self, author: Author, visibility: Visibility | None) -> None:
        if visibility == "public" and not author.may_publish:
            raise PermissionDenied("resources:publish")

    async def _check_kept(self, author: Author, content: Content, digests: Collection[str]) -> int:
        """Returns the total size of existing parts; each must be visible, and as large as the content states."""
        sizes: dict[str, int] = {}
        for digest in digests:
            size = await self._view(author).blob_size(digest)
            if size is None:
                raise ResourceInvalid(f"The blob {digest} is not there; send its data")
            sizes[digest] = size
        for where, part in binaries(content):
            if part.blob in sizes and part.size != sizes[part.blob]:
                raise ResourceInvalid(f"{shorten(where)}.size is {part.size}, but the part has {sizes[part.blob]} bytes")
        return sum(sizes.values())

    async def _revised(
        self, author: Author, resource: Resource, latest: ResourceVersion | None, revision: VersionChange, version: str
    ) -> NewVersion:
        """Returns the draft of the next version: absent fields come from the latest."""
        content, schema, dependencies = revision.content, revision.schema, revision.dependencies
        if latest is not None:
            node = (await self._view(author).closure(latest.version_id, limit=1)).get(latest.version_id)
            if node is None:
                raise ResourceNotFound(resource.resource_id)
            content = msgspec.json.decode(node.content) if content is None else content
            schema = latest.schema if schema is UNSET else schema
            dependencies = self._declared(node) if dependencies is None else dependencies
        if content is None:
            raise InvalidInput("content is required: there is no earlier version to take it from")
        changes = revision.changes
        return NewVersion(
            type=resource.type,
            name=resource.name,
            content=content,
            version=version,
            schema=None if schema is UNSET else schema,
            dependencies=dependencies,
            description=changes.description,
            tags=changes.tags,
            visibility=changes.visibility,
            deprecated=changes.deprecated,
            pointer=revision.pointer,
        )

    def _declared(self, node: Node) -> dict[str, str]:
        """The dependencies of a version that its content does not name itself."""
        kind = self._kinds[node.resource.type]
        named = kind.references(msgspec.json.decode(node.content, type=kind.content))
        return {alias: uri for alias, uri in node.version.dependencies.items() if alias not in named}

    async def _lock(
        self, author: Author, draft: NewVersion, references: Mapping[str, str], targets: Targets | None
    ) -> tuple[NewDependency, ...]:
        """Resolves each reference as of now. Its whole closure, together with the new version, must be small enough."""
        dependencies: list[NewDependency] = []
        nodes: dict[VersionId, Node] = {}
        for alias, text in references.items():
            uri = parse_uri(text)
            if (uri.type, uri.name) == (draft.type, draft.name) and await self._is_own(author, uri):
                itself = str(ResourceUri(type=draft.type, name=draft.name))
                raise ResourceCycle([itself, itself])
            if targets is not None:
                target: VersionId | int = targets[alias]
            else:
                closure = await self._resource(author, alias, uri)
                nodes |= closure.nodes
                target = closure.root.version.version_id
                check_size(nodes, target, text, above=1)
            dependencies.append(NewDependency(alias=alias, uri=text, target=target, floating=not uri.is_exact))
        return tuple(dependencies)

    async def _resource(self, author: Author, alias: str, uri: ResourceUri) -> VersionClosure:
        try:
            return await self._resolver.find(author.tenant_id, uri)
        except AgentVMError as error:
            error.details.setdefault("path", alias)
            raise

    async def _is_own(self, author: Author, uri: ResourceUri) -> bool:
        if uri.owner is None:
            return True
        resource = await self._view(author).find(uri.type, uri.name, uri.owner)
        return resource is not None and resource.tenant_id == author.tenant_id


def check_draft(kind: ResourceKind, draft: NewVersion) -> str:
    """Checks a draft without the resources it refers to; returns its digest."""
    check_name(draft.name)
    parse_version(draft.version or FIRST)
    check_description(draft.description)
    check_words(draft.tags)
    read = _read(kind, draft)
    _check_content(len(read.body) + sum(map(len, read.blobs.values())))
    return read.digest


def _check_content(size: int) -> None:
    if size > CONTENT_MAX_BYTES:
        raise ResourceTooLarge(f"The content has {size} bytes with its binary parts; at most {CONTENT_MAX_BYTES} are allowed")


def _read(kind: ResourceKind, draft: NewVersion) -> _Read:
    accepted = accept(kind, draft.content)
    if isinstance(accepted, SkillContent):
        check_named(draft.name, accepted)
    content, blobs, existing = detach(accepted)
    body = encode(content)
    if draft.schema is not None:
        check_schema("schema", draft.schema)
    references = _references(draft, kind.references(content))
    digest = version_digest(draft.type, msgspec.json.decode(body), draft.schema, references)
    return _Read(content, body, blobs, existing, references, digest, kind.text(content)[:INDEXED_TEXT_MAX])


def _references(draft: NewVersion, named: Mapping[str, str]) -> dict[str, str]:
    """Returns the references in the content and the declared ones, as written."""
    declared = draft.dependencies or {}
    for alias, uri in declared.items():
        if not 0 < len(alias) <= ALIAS_MAX or not alias.isprintable():
            raise InvalidInput(f"The name of a dependency has 1 to {ALIAS_MAX} characters that can be printed")
        if named.get(alias, uri) != uri:
            raise ResourceInvalid(f"The dependency {alias} is {uri}, but the content says {named[alias]}")
    both = {**named, **declared}
    if len(both) >= NODES_MAX:
        raise ResourceInvalid(f"A resource refers to at most {NODES_MAX - 1} others")
    return both


def _next(versions: Sequence[ResourceVersion], bump: Bump) -> Version:
    """After the highest there is, withdrawn or not: its number is not given out again."""
    highest = max((parse_version(version.version) for version in versions), default=None)
    return parse_version(FIRST) if highest is None else highest.bumped(bump)
