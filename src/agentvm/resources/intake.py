"""Intake — checks, links and publishes the content of an archive in one batch.

The importer becomes the owner. Versions of one archive are linked to each other, regardless of existing resources with the
same names, so an imported agent gets the prompt it was published with. An unchanged version of another owner that exists here
is linked to and not copied. A version that an archive names but does not hold must exist here.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, Literal

import anyio.to_thread
import msgspec

from agentvm.errors import InvalidInput, shorten
from agentvm.errors.resource import (
    ResourceCycle,
    ResourceInvalid,
    ResourceNotFound,
    ResourceTooDeep,
    ResourceVersionExists,
)
from agentvm.model.base import Record
from agentvm.model.resource import (
    DEPTH_MAX,
    NODES_MAX,
    ResourceType,
    ResourceUri,
    VersionId,
    Visibility,
    parse_uri,
)
from agentvm.model.semver import Version, parse_version
from agentvm.resources.archive import Bundle, BundleDependency, BundleEntry, read_json
from agentvm.resources.kind import Binary, accept, detach, exact_uri
from agentvm.resources.kinds import KINDS
from agentvm.resources.registry import Author, NewVersion
from agentvm.resources.resolver import VersionClosure
from agentvm.storage.resources import Publication

if TYPE_CHECKING:
    from agentvm.resources.centre import ResourceCentre

OnConflict = Literal["skip", "fail", "newVersion"]
ImportOutcome = Literal["created", "unchanged", "skipped", "renumbered", "conflict"]
ImportTarget = VersionId | int
"""A version that is here, or the place in the batch of one that will be."""


class ImportedEntry(Record):
    """The result for one entry: the version that exists now, or would exist after a dry run."""

    uri: str
    type: ResourceType
    name: str
    version: str
    digest: str
    outcome: ImportOutcome
    is_new_resource: bool = False


async def publish_bundle(
    centre: "ResourceCentre",
    author: Author,
    bundle: Bundle,
    *,
    on_conflict: OnConflict = "fail",
    dry_run: bool = False,
    redescribe: bool = False,
    absent: Collection[tuple[ResourceType, str]] = (),
) -> list[ImportedEntry]:
    """Publishes a bundle with verified digests, dependencies first; or nothing, and an error says why.

    `redescribe` is whether a new version also brings its description and tags to a resource that exists. `absent` are names
    under which the author is known to have no resource: they need not be looked up.
    """
    intake = _Intake(centre, author, bundle, on_conflict, redescribe=redescribe)
    intake.assume_absent(absent)
    report: list[ImportedEntry] = []
    for entry in in_order(bundle.entries):
        report.append(await intake.add(entry))
    conflicts = [entry.uri for entry in report if entry.outcome == "conflict"]
    if conflicts and not dry_run:
        raise ResourceVersionExists(
            f"Here with other content: {', '.join(conflicts[:5])}. Nothing was imported; choose "
            "onConflict=skip or newVersion, with avm --on-conflict skip or new-version",
            details={"conflicts": conflicts},
        )
    if intake.batch and not dry_run:
        await centre.registry.publish(author, intake.batch)
    return report


def in_order(entries: Iterable[BundleEntry]) -> list[BundleEntry]:
    """Sorts the entries so that each comes after its dependencies; `ResourceCycle` if that is impossible."""
    named = {entry.uri: entry for entry in sorted(entries, key=lambda entry: entry.uri)}
    graph = {
        uri: [dependency.resolved for dependency in entry.dependencies if dependency.resolved in named]
        for uri, entry in named.items()
    }
    try:
        return [named[uri] for uri in TopologicalSorter(graph).static_order()]
    except CycleError as error:
        raise ResourceCycle([shorten(uri) for uri in reversed(error.args[1])]) from None


@dataclass(frozen=True, slots=True)
class _OwnVersion:
    """A version of one of the importer's resources, there or in the batch."""

    version: str
    digest: str
    place: ImportTarget


@dataclass(slots=True)
class _OwnVersions:
    """The versions that the importer has under one name."""

    versions: dict[Version, _OwnVersion] = field(default_factory=dict)
    is_new: bool = True
    """Whether the resource does not exist and no entry of the batch creates it yet."""


@dataclass(frozen=True, slots=True)
class _Closure:
    """All versions that a version leads to, itself included, and the depth."""

    places: frozenset[ImportTarget]
    height: int
    is_public: bool


class _Intake:
    """One import. `batch` holds the versions to publish."""

    def __init__(
        self, centre: "ResourceCentre", author: Author, bundle: Bundle, on_conflict: OnConflict, *, redescribe: bool
    ) -> None:
        self.batch: list[Publication] = []
        self._centre = centre
        self._author = author
        self._bundle = bundle
        self._on_conflict = on_conflict
        self._redescribe = redescribe
        self._view = centre.store.resources(author.tenant_id)
        self._digests = {entry.uri: entry.digest for entry in bundle.entries}
        self._placed: dict[str, ImportTarget] = {}
        self._own_versions: dict[tuple[ResourceType, str], _OwnVersions] = {}
        self._closures: dict[ImportTarget, _Closure] = {}

    def assume_absent(self, names: Iterable[tuple[ResourceType, str]]) -> None:
        self._own_versions.update((name, _OwnVersions()) for name in names)

    async def add(self, entry: BundleEntry) -> ImportedEntry:
        """Adds an entry; its dependencies were added before."""
        uri = _checked(entry)
        # Large contents take a while, and others wait for the same loop.
        content = await anyio.to_thread.run_sync(_with_parts, entry, self._bundle.blobs)
        if uri.owner is not None and (identical := await self._find(uri, entry.digest)) is not None:
            self._placed[entry.uri] = identical.root.version.version_id
            exact = exact_uri(identical.root, self._author.tenant_id)
            return _reported(entry, "unchanged", identical.root.version.version, exact)
        own = await self._versions_of(entry.type, entry.name)
        version = parse_version(entry.version)
        existing = own.versions.get(version)
        if existing is None:
            return await self._create(entry, content, own, entry.version, "created")
        if existing.digest != entry.digest and self._on_conflict == "newVersion":
            same_content = next((candidate for candidate in own.versions.values() if candidate.digest == entry.digest), None)
            if same_content is None:
                return await self._create(entry, content, own, str(max(own.versions).bumped("patch")), "renumbered")
            existing = same_content
        self._placed[entry.uri] = existing.place
        if existing.digest == entry.digest:
            return _reported(entry, "unchanged", existing.version)
        outcome: ImportOutcome = "conflict" if self._on_conflict == "fail" else "skipped"
        return msgspec.structs.replace(_reported(entry, outcome, existing.version), digest=existing.digest)

    async def _create(
        self, entry: BundleEntry, content: object, own: _OwnVersions, version: str, outcome: ImportOutcome
    ) -> ImportedEntry:
        targets = {dependency.alias: await self._target(entry, dependency) for dependency in entry.dependencies}
        is_public = await self._measure(entry, targets.values())
        visibility: Visibility = "public" if is_public else "private"
        is_new = own.is_new
        describes = is_new or self._redescribe
        draft = NewVersion(
            type=entry.type,
            name=entry.name,
            content=content,
            version=version,
            schema=entry.schema,
            dependencies={dependency.alias: dependency.uri for dependency in entry.dependencies},
            # The owner of an existing resource has already described it.
            description=entry.description if describes else None,
            tags=entry.tags if describes else None,
            visibility=visibility if describes else None,
            deprecated=entry.deprecated if describes else None,
        )
        publication = await self._centre.registry.prepare(self._author, draft, targets)
        if publication.digest != entry.digest:
            raise ResourceInvalid(
                f"{shorten(entry.uri)} in the archive is written unlike its type, so its digest is not its own"
            )
        place = len(self.batch)
        self.batch.append(publication)
        own.versions[parse_version(version)] = _OwnVersion(version, entry.digest, place)
        own.is_new = False
        self._placed[entry.uri] = place
        return msgspec.structs.replace(_reported(entry, outcome, version), is_new_resource=is_new)

    async def _target(self, entry: BundleEntry, dependency: BundleDependency) -> ImportTarget:
        """Returns the target of a dependency: in the bundle, else here by its digest, else here by the URI as written."""
        requested, resolved = parse_uri(dependency.uri), parse_uri(dependency.resolved)
        if (requested.type, requested.name) != (resolved.type, resolved.name):
            raise ResourceInvalid(
                f"{shorten(entry.uri)} in the archive locks {dependency.uri} to {dependency.resolved}, which has another name"
            )
        if dependency.resolved in self._placed:
            if self._digests[dependency.resolved] != dependency.digest:
                raise ResourceInvalid(
                    f"{shorten(entry.uri)} needs {dependency.resolved} with another digest than that in the archive"
                )
            return self._placed[dependency.resolved]
        node = (
            await self._find(resolved, dependency.digest)
            or await self._find(requested, dependency.digest)
            or await self._find(requested)
        )
        if node is None:
            raise ResourceInvalid(
                f"{shorten(entry.uri)} needs {dependency.uri}, which is neither in the archive nor here; "
                "import that first, or export with dependencies"
            )
        return node.root.version.version_id

    async def _find(self, uri: ResourceUri, digest: str | None = None) -> VersionClosure | None:
        try:
            target = uri if digest is None else parse_uri(str(msgspec.structs.replace(uri, selector=digest, fragment=None)))
            return await self._centre.resolver.find(self._author.tenant_id, target)
        except ResourceNotFound:
            return None

    async def _versions_of(self, kind: ResourceType, name: str) -> _OwnVersions:
        cached = self._own_versions.get((kind, name))
        if cached is not None:
            return cached
        resource = await self._view.find(kind, name)
        if resource is not None and resource.tenant_id != self._author.tenant_id:
            resource = None
        own = _OwnVersions(is_new=resource is None)
        if resource is not None:
            for version in (await self._view.history(resource.resource_id)).versions:
                own.versions[parse_version(version.version)] = _OwnVersion(version.version, version.digest, version.version_id)
        self._own_versions[kind, name] = own
        return own

    async def _measure(self, entry: BundleEntry, targets: Iterable[ImportTarget]) -> bool:
        """Whether it can be public. `ResourceTooDeep` when it would refer to too much, or too far down."""
        below = [await self._closure_of(target) for target in targets]
        place = len(self.batch)
        closure = _Closure(
            frozenset({place}).union(*(child.places for child in below)),
            max((child.height + 1 for child in below), default=0),
            entry.visibility == "public" and self._author.may_publish and all(child.is_public for child in below),
        )
        if len(closure.places) > NODES_MAX or closure.height > DEPTH_MAX:
            raise ResourceTooDeep(
                f"{shorten(entry.uri)} refers to more than {NODES_MAX} versions, or more than {DEPTH_MAX} levels down"
            )
        self._closures[place] = closure
        return closure.is_public

    async def _closure_of(self, place: ImportTarget) -> _Closure:
        if place not in self._closures:
            assert not isinstance(place, int)
            nodes = await self._view.closure(place, limit=NODES_MAX + 1)
            if place not in nodes:
                raise ResourceNotFound(place)
            level, height = {place}, -1
            while level:
                level, height = (
                    {link.target for version_id in level for link in nodes[version_id].links if link.target in nodes},
                    height + 1,
                )
            self._closures[place] = _Closure(frozenset(nodes), height, nodes[place].resource.visibility == "public")
        return self._closures[place]


def _checked(entry: BundleEntry) -> ResourceUri:
    """Checks that the URI agrees with the other fields, so that the shown name is the imported one."""
    uri = parse_uri(entry.uri)
    named = ResourceUri(type=entry.type, owner=uri.owner, name=entry.name, selector=entry.version)
    if str(named) != entry.uri or parse_uri(str(named)) != named:
        raise InvalidInput(f"{shorten(entry.uri)} in the archive has another type, name or version than its URI")
    parse_version(entry.version)
    return uri


def _with_parts(entry: BundleEntry, blobs: Mapping[str, bytes]) -> object:
    """Returns the content with the data of its binary parts; they must be those that the entry names."""
    raw = read_json(blobs[entry.content], f"The content of {shorten(entry.uri)}")
    content = accept(KINDS[entry.type], raw)
    _, data, digests = detach(content)
    if data or digests != set(entry.blobs):
        raise ResourceInvalid(f"The binary parts of {shorten(entry.uri)} are not those that the archive names")
    named = {dependency.alias for dependency in entry.dependencies}
    if missing := sorted(KINDS[entry.type].references(content).keys() - named):
        raise ResourceInvalid(f"{shorten(entry.uri)} in the archive has no lock for {shorten(missing[0])}")
    return msgspec.to_builtins(attach(content, blobs)) if digests else raw


def attach(value: Any, blobs: Mapping[str, bytes]) -> Any:
    """Puts the data of binary parts in place of their digests: the inverse of `detach`."""
    match value:
        case Binary(blob=str(digest)):
            return Binary(data=blobs[digest])
        case msgspec.Struct():
            members = {name: attach(getattr(value, name), blobs) for name in value.__struct_fields__}
            return msgspec.structs.replace(value, **members)
        case dict():
            return {name: attach(item, blobs) for name, item in value.items()}
        case tuple():
            return tuple(attach(item, blobs) for item in value)
        case _:
            return value


def _reported(entry: BundleEntry, outcome: ImportOutcome, version: str, uri: str | None = None) -> ImportedEntry:
    own = ResourceUri(type=entry.type, name=entry.name, selector=version)
    return ImportedEntry(
        uri=uri or str(own),
        type=entry.type,
        name=entry.name,
        version=version,
        digest=entry.digest,
        outcome=outcome,
    )
