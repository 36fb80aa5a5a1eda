"""Resolver — from a URI to one version, everything it is locked to, and its rendered form.

Pure: it runs, fetches and writes nothing. The dependencies of a version were locked when it was published, so a URI with an
exact version means the same for ever; only a floating one (`@latest`, `@^1`, `@stable`) is looked up each time. Resolved
closures are cached until the next publication or change on this server, and for a few seconds at most.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import anyio.to_thread
import msgspec

from agentvm.errors import InvalidInput, shorten, suggest
from agentvm.errors.resource import ResourceLockMismatch, ResourceNotFound, ResourceTooDeep, ResourceTooLarge
from agentvm.model.base import Record
from agentvm.model.ids import Clock, TenantId
from agentvm.model.resource import (
    CLOSURE_MAX_BYTES,
    DEPTH_MAX,
    LATEST,
    NODES_MAX,
    RENDERED_MAX_BYTES,
    Locked,
    Resource,
    ResourceId,
    ResourceType,
    ResourceUri,
    ResourceVersion,
    VersionId,
    Visibility,
    describe_versions,
    is_digest,
    parse_uri,
    select,
)
from agentvm.model.semver import is_version
from agentvm.resources.kind import RenderContext, ResourceKind, exact_uri
from agentvm.resources.prompt import declares, variables
from agentvm.sharing.cache import Cache
from agentvm.storage.resources import Node

if TYPE_CHECKING:
    from agentvm.storage.sql.resources import ResourceStore
    from agentvm.storage.sql.store import Store

Expand = Literal["none", "content", "closure"]
CACHE_MS, SHARED_CACHE_MS = 5_000, 500
"""Maximum age of a cached version; less where other nodes of a cluster publish, too."""
CACHE_MAX_BYTES = 32 * 1024 * 1024
"""Content of all cached closures together."""
NODE_OVERHEAD_BYTES = 2_000
"""Rough size of a node besides its content."""
INLINE_MAX_BYTES = 16 * 1024
"""A larger closure is shown and rendered in a thread: other work waits for the same loop."""
ARGS_MAX = 1_000
"""Arguments of one request."""
WARNED_ARGS_MAX = 20
"""Unknown arguments that get a warning each: each is compared with all variables."""
COMPARED_NAMES_MAX = 200
"""Variables that an unknown argument is compared with."""


class Manifest(Record):
    """The facts about a version besides its content."""

    resource_id: ResourceId
    type: ResourceType
    owner: str
    name: str
    version: str
    size: int
    visibility: Visibility
    created_at: int
    description: str | None = None
    tags: tuple[str, ...] = ()
    deprecated: str | None = None
    dependencies: dict[str, str] = msgspec.field(default_factory=dict)


class Dependency(Record):
    """A version that another was locked to. `content` only with `expand=closure`."""

    uri: str
    """The URI as written."""
    resolved: str
    digest: str
    type: ResourceType
    content: object | None = None


class Warned(Record):
    """A warning for users of the resource; `code` is deprecated, yanked, duplicate or argument."""

    code: Literal["deprecated", "yanked", "duplicate", "argument"]
    uri: str
    message: str


class Resolved(Record):
    """The resolved URI. `rendered` is the rendered form of its kind: a prompt's text, a tool's spec, an agent's definition."""

    uri: str
    resolved: str
    digest: str
    type: ResourceType
    manifest: Manifest
    schema: dict[str, object] | None = None
    content: object | None = None
    rendered: object | None = None
    dependencies: tuple[Dependency, ...] = ()
    lock: tuple[Locked, ...] = ()
    warnings: tuple[Warned, ...] = ()


class Pinned(Record):
    """An entry of a stored lock, as `Resolved.lock` gave it."""

    uri: str
    digest: str


@dataclass(frozen=True, slots=True)
class VersionClosure:
    """A version and its closure."""

    root: Node
    nodes: Mapping[VersionId, Node]

    @property
    def weight(self) -> int:
        return sum(len(node.content) + NODE_OVERHEAD_BYTES for node in self.nodes.values())


class Resolver:
    """Resolves URIs for all tenants."""

    def __init__(self, store: "Store", kinds: Mapping[ResourceType, ResourceKind], clock: Clock) -> None:
        self._store = store
        self._kinds = kinds
        self._clock = clock
        self._cache: Cache[tuple[TenantId, str], VersionClosure] = Cache(
            CACHE_MAX_BYTES, age_ms=SHARED_CACHE_MS if store.node_id else CACHE_MS, weigh=lambda closure: closure.weight
        )
        self._changes = 0

    async def resolve(
        self,
        tenant_id: TenantId,
        text: str,
        *,
        args: Mapping[str, object] | None = None,
        expand: Expand = "content",
        lock: Sequence[Pinned] | None = None,
    ) -> Resolved:
        """Resolves a URI. `ResourceNotFound` when it is absent or not visible; `ResourceLockMismatch` when the lock differs."""
        uri = parse_uri(text)
        if args is not None and len(args) > ARGS_MAX:
            raise InvalidInput(f"A resource is resolved with at most {ARGS_MAX} args, not {len(args)}")
        closure = await self.find(tenant_id, uri)

        def make() -> Resolved:
            shown = _show(tenant_id, uri, closure, expand)
            if lock is not None:
                _compare(shown, lock)
            if expand == "none":
                return shown
            warnings = (*shown.warnings, *_unused(closure, shown.resolved, args or {}))
            return msgspec.structs.replace(shown, rendered=self.render(tenant_id, uri, closure, args), warnings=warnings)

        return make() if _is_light(args, INLINE_MAX_BYTES - closure.weight) else await anyio.to_thread.run_sync(make)

    def render(
        self, tenant_id: TenantId, uri: ResourceUri, closure: VersionClosure, args: Mapping[str, object] | None
    ) -> object:
        context = RenderContext(
            viewer=tenant_id,
            node=closure.root,
            nodes=closure.nodes,
            kinds=self._kinds,
            args=args or {},
            fragment=uri.fragment,
        )
        rendered = context.render()
        size = len(rendered) if isinstance(rendered, str) else len(msgspec.json.encode(rendered))
        if size > RENDERED_MAX_BYTES:
            raise ResourceTooLarge(f"{uri} renders to {size} bytes; at most {RENDERED_MAX_BYTES} are allowed")
        return rendered

    async def find(self, tenant_id: TenantId, uri: ResourceUri) -> VersionClosure:
        """Returns the version that a URI selects, and everything it is locked to."""
        key = (tenant_id, str(msgspec.structs.replace(uri, fragment=None)))
        closure = self._cache.get(key, self._clock())
        if closure is None:
            changes = self._changes
            closure = await self._look_up(tenant_id, uri)
            if changes == self._changes:
                self._cache.put(key, closure, self._clock())
        return closure

    def forget(self) -> None:
        """Clears the cache after a publication, a change or a deletion."""
        self._changes += 1
        self._cache.clear()

    async def _look_up(self, tenant_id: TenantId, uri: ResourceUri) -> VersionClosure:
        store = self._store.resources(tenant_id)
        version_id: VersionId | None = None
        resource = await store.find(uri.type, uri.name, uri.owner)
        if resource is not None:
            version = await _select(store, resource, uri.selector)
            version_id = None if version is None else version.version_id
        if version_id is None and uri.selector is not None and is_digest(uri.selector):
            version_id = await store.find_locked(uri.type, uri.name, uri.owner, uri.selector)
        if version_id is None:
            raise ResourceNotFound(str(uri), await _known_parts(store, resource))
        nodes = await store.closure(version_id, limit=NODES_MAX + 1)
        if version_id not in nodes:
            raise ResourceNotFound(str(uri))
        check_size(nodes, version_id, str(uri))
        return VersionClosure(nodes[version_id], nodes)


async def _select(store: "ResourceStore", resource: Resource, selector: str | None) -> ResourceVersion | None:
    """Returns the selected version. Most often its number is known, and then the others, which may be many, are not read."""
    only = resource.latest if selector in (None, LATEST) else selector if is_version(selector or "") else None
    if only is not None:
        history = await store.history(resource.resource_id, only)
        # The latest may have been withdrawn meanwhile.
        if (version := select(history.versions, history.tags, selector)) is not None:
            return version
    history = await store.history(resource.resource_id)
    return select(history.versions, history.tags, selector)


async def _known_parts(store: "ResourceStore", resource: Resource | None) -> str:
    """Lists the available versions, for a caller that may see the resource and asked for one it does not have."""
    if resource is None:
        return ""
    history = await store.history(resource.resource_id)
    return describe_versions(history.versions, history.tags)


def check_size(nodes: Mapping[VersionId, Node], root: VersionId, uri: str, *, above: int = 0) -> None:
    """`ResourceTooDeep` when it refers to too many, or too far down, `ResourceTooLarge` when to too much.

    `above` are versions that will stand over it.
    """
    if len(nodes) + above > NODES_MAX:
        raise ResourceTooDeep(f"{uri} refers to more than {NODES_MAX} versions")
    if (size := sum(len(node.content) for node in nodes.values())) > CLOSURE_MAX_BYTES:
        raise ResourceTooLarge(f"{uri} has {size} bytes with all that it refers to; at most {CLOSURE_MAX_BYTES} are allowed")
    level, reached = {root}, 0
    while level:
        if reached + above > DEPTH_MAX:
            raise ResourceTooDeep(f"References lead more than {DEPTH_MAX} levels down from {uri}")
        level = {link.target for version_id in level for link in nodes[version_id].links}
        reached += 1


def lock_of(closure: VersionClosure, viewer: TenantId) -> tuple[Locked, ...]:
    """The root first, then the rest by their URIs."""
    rest = sorted(
        (node for node in closure.nodes.values() if node is not closure.root), key=lambda node: exact_uri(node, viewer)
    )
    return tuple(
        Locked(
            uri=exact_uri(node, viewer),
            version=node.version.version,
            digest=node.version.digest,
            version_id=node.version.version_id,
        )
        for node in (closure.root, *rest)
    )


def _show(viewer: TenantId, uri: ResourceUri, closure: VersionClosure, expand: Expand) -> Resolved:
    root = closure.root
    resource, version = root.resource, root.version
    own = msgspec.structs.replace(uri, owner=None) if resource.tenant_id == viewer else uri
    return Resolved(
        uri=str(own),
        resolved=exact_uri(root, viewer),
        digest=version.digest,
        type=resource.type,
        manifest=manifest_of(root),
        schema=version.schema,
        content=None if expand == "none" else msgspec.json.decode(root.content),
        dependencies=tuple(_dependencies(closure, viewer, with_content=expand == "closure")),
        lock=lock_of(closure, viewer),
        warnings=tuple(warnings_of(closure, viewer)),
    )


def manifest_of(node: Node) -> Manifest:
    facts = msgspec.structs.asdict(node.resource) | msgspec.structs.asdict(node.version)
    return Manifest(**{name: facts[name] for name in Manifest.__struct_fields__})


def in_order(closure: VersionClosure) -> Iterator[tuple[Node, str]]:
    """Yields the dependencies of the root, each before its dependents, with a URI that leads there as written."""
    visited: set[VersionId] = {closure.root.version.version_id}
    # Iterative: the graph may be deep, but not circular, since a version can only be locked to older ones.
    waiting: list[tuple[VersionId, str, bool]] = [(link.target, link.uri, False) for link in reversed(closure.root.links)]
    while waiting:
        version_id, uri, ready = waiting.pop()
        if version_id in visited:
            continue
        node = closure.nodes[version_id]
        if ready or not node.links:
            visited.add(version_id)
            yield node, uri
        else:
            waiting.append((version_id, uri, True))
            waiting += [(link.target, link.uri, False) for link in reversed(node.links)]


def _dependencies(closure: VersionClosure, viewer: TenantId, *, with_content: bool) -> Iterator[Dependency]:
    for node, uri in in_order(closure):
        yield Dependency(
            uri=uri,
            resolved=exact_uri(node, viewer),
            digest=node.version.digest,
            type=node.resource.type,
            content=msgspec.json.decode(node.content) if with_content else None,
        )


def warnings_of(closure: VersionClosure, viewer: TenantId) -> Iterator[Warned]:
    """Yields warnings for users of the resource."""
    versions: dict[ResourceId, list[str]] = {}
    for node in closure.nodes.values():
        resource, uri = node.resource, exact_uri(node, viewer)
        if resource.deprecated is not None:
            yield Warned(code="deprecated", uri=uri, message=resource.deprecated)
        if node.version.yanked_at is not None:
            yield Warned(code="yanked", uri=uri, message="This version was withdrawn; move to another")
        versions.setdefault(resource.resource_id, []).append(uri)
    for uris in versions.values():
        if len(uris) > 1:
            yield Warned(code="duplicate", uri=uris[0], message=f"More than one version is used: {', '.join(sorted(uris))}")


def _unused(closure: VersionClosure, uri: str, args: Mapping[str, object]) -> Iterator[Warned]:
    """Arguments that a prompt which declares its variables has no use for: probably they are misspelt."""
    if not args or closure.root.resource.type != "prompts" or not declares(closure.root.content):
        return
    names = {name for node in closure.nodes.values() if node.resource.type == "prompts" for name in variables(node.content)}
    unknown = [name for name in args if name not in names]
    compared = sorted(names)[:COMPARED_NAMES_MAX]
    for name in unknown[:WARNED_ARGS_MAX]:
        message = f"There is no variable {shorten(name)}; {suggest(name, compared)}" if names else "It has no variables"
        yield Warned(code="argument", uri=uri, message=message)
    if len(unknown) > WARNED_ARGS_MAX:
        yield Warned(code="argument", uri=uri, message=f"There are {len(unknown) - WARNED_ARGS_MAX} more unknown arguments")


def _is_light(args: Mapping[str, object] | None, room: int) -> bool:
    """Whether the arguments have at most that many characters and values; looks at no more of them than that."""
    waiting: list[object] = [args or {}]
    while waiting and room >= 0:
        value = waiting.pop()
        room -= len(value) if isinstance(value, str | Mapping | Sequence) else 1
        if room < 0:
            break
        if isinstance(value, Mapping):
            room -= sum(map(len, value))
            waiting += value.values()
        elif isinstance(value, Sequence) and not isinstance(value, str):
            waiting += value
    return room >= 0


def _compare(shown: Resolved, lock: Sequence[Pinned]) -> None:
    expected = {(entry.uri, entry.digest) for entry in lock}
    now = {(entry.uri, entry.digest) for entry in shown.lock}
    if expected != now:
        changed = sorted({uri for uri, _ in expected ^ now})
        raise ResourceLockMismatch(
            f"{shown.uri} does not resolve to the locked versions: {', '.join(changed[:10])}", details={"changed": changed}
        )
