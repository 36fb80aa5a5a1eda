"""Intake — what comes in with an archive, checked, linked and published in one batch.

What is taken in becomes the importer's. Versions that come together are linked to each other, whatever else goes by their names
here, so an agent from elsewhere gets the very prompt it was published with. What others own and is here already, unchanged, is
linked to and not copied. What an archive names but does not hold must be here.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal

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
    MAX_DEPTH,
    MAX_NODES,
    ResourceType,
    ResourceUri,
    VersionId,
    Visibility,
    parse_uri,
)
from agentvm.model.semver import Version, parse_version
from agentvm.resources.archive import Bundle, BundleDependency, BundleEntry, read_json
from agentvm.resources.centre import ResourceCentre
from agentvm.resources.kind import Binary, accept, detach, exact_uri
from agentvm.resources.kinds import KINDS
from agentvm.resources.registry import Author, NewVersion
from agentvm.resources.resolver import VersionClosure
from agentvm.storage.resources import Publication

OnConflict = Literal["skip", "fail", "newVersion"]
ImportOutcome = Literal["created", "unchanged", "skipped", "renumbered", "conflict"]
ImportTarget = VersionId | int
"""A version that is here, or the place in the batch of one that will be."""


class ImportedEntry(Record):
    """What became of an entry: as it is here now, or would be."""

    uri: str
    type: ResourceType
    name: str
    version: str
    digest: str
    outcome: ImportOutcome
    is_new_resource: bool = False


async def take_in(
    centre: ResourceCentre,
    author: Author,
    bundle: Bundle,
    *,
    on_conflict: OnConflict = "fail",
    dry_run: bool = False,
    redescribe: bool = False,
    absent: Collection[tuple[ResourceType, str]] = (),
) -> list[ImportedEntry]:
    """All of a bundle whose digests are known to be right, what others depend on first; or nothing, and an error says why.

    `redescribe` is whether a new version also brings its description and tags to a resource that is there. `absent` are names
    that the author is known to have nothing under: they need not be looked up.
    """
    intake = _Intake(centre, author, bundle, on_conflict, redescribe=redescribe)
    intake.assume_absent(absent)
    report: list[ImportedEntry] = []
    for entry in in_order(bundle.entries):
        report.append(await intake.add(entry))
    conflicts = [entry.uri for entry in report if entry.outcome == "conflict"]
    if conflicts and not dry_run:
        raise ResourceVersionExists(
            f"Here with other content: {', '.join(conflicts[:5])}. Nothing was imported; choose what becomes of them: "
            "onConflict=skip or newVersion, with avm --on-conflict skip or new-version",
            details={"conflicts": conflicts},
        )
    if intake.batch and not dry_run:
        await centre.registry.publish(author, intake.batch)
    return report


def in_order(entries: Iterable[BundleEntry]) -> list[BundleEntry]:
    """Each after those it depends on; `ResourceCycle` if that cannot be."""
    named = {entry.uri: entry for entry in sorted(entries, key=lambda entry: entry.uri)}
    graph = {uri: [one.resolved for one in entry.dependencies if one.resolved in named] for uri, entry in named.items()}
    try:
        return [named[uri] for uri in TopologicalSorter(graph).static_order()]
    except CycleError as error:
        raise ResourceCycle([shorten(uri) for uri in reversed(error.args[1])]) from None


@dataclass(frozen=True, slots=True)
class _Kept:
    """A version of one of the importer's resources, there or in the batch."""

    version: str
    digest: str
    place: ImportTarget


@dataclass(slots=True)
class _ImportedName:
    """What the importer has under a name."""

    versions: dict[Version, _Kept] = field(default_factory=dict)
    is_new: bool = True
    """Nothing is there, and nothing in the batch makes it yet."""


@dataclass(frozen=True, slots=True)
class _VisibleVersions:
    """Everything that a version leads to, itself included, and how far down."""

    places: frozenset[ImportTarget]
    height: int
    is_public: bool


class _Intake:
    """One import. `batch` is what must be published for it."""

    def __init__(
        self, centre: ResourceCentre, author: Author, bundle: Bundle, on_conflict: OnConflict, *, redescribe: bool
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
        self._shelves: dict[tuple[ResourceType, str], _ImportedName] = {}
        self._reached: dict[ImportTarget, _VisibleVersions] = {}

    def assume_absent(self, names: Iterable[tuple[ResourceType, str]]) -> None:
        self._shelves.update((name, _ImportedName()) for name in names)

    async def add(self, entry: BundleEntry) -> ImportedEntry:
        """Its dependencies were added before."""
        uri = _checked(entry)
        # Large contents take a while, and others wait for the same loop.
        content = await anyio.to_thread.run_sync(_with_parts, entry, self._bundle.blobs)
        if uri.owner is not None and (found := await self._find(uri, entry.digest)) is not None:
            self._placed[entry.uri] = found.root.version.version_id
            exact = exact_uri(found.root, self._author.tenant_id)
            return _reported(entry, "unchanged", found.root.version.version, exact)
        shelf = await self._shelf(entry.type, entry.name)
        wanted = parse_version(entry.version)
        there = shelf.versions.get(wanted)
        if there is None:
            return await self._create(entry, content, shelf, entry.version, "created")
        if there.digest != entry.digest and self._on_conflict == "newVersion":
            same = next((kept for kept in shelf.versions.values() if kept.digest == entry.digest), None)
            if same is None:
                return await self._create(entry, content, shelf, str(max(shelf.versions).bumped("patch")), "renumbered")
            there = same
        self._placed[entry.uri] = there.place
        if there.digest == entry.digest:
            return _reported(entry, "unchanged", there.version)
        outcome: ImportOutcome = "conflict" if self._on_conflict == "fail" else "skipped"
        return msgspec.structs.replace(_reported(entry, outcome, there.version), digest=there.digest)

    async def _create(
        self, entry: BundleEntry, content: object, shelf: _ImportedName, version: str, outcome: ImportOutcome
    ) -> ImportedEntry:
        targets = {one.alias: await self._target(entry, one) for one in entry.dependencies}
        is_public = await self._measure(entry, targets.values())
        visibility: Visibility = "public" if is_public else "private"
        is_new = shelf.is_new
        describes = is_new or self._redescribe
        draft = NewVersion(
            type=entry.type,
            name=entry.name,
            content=content,
            version=version,
            schema=entry.schema,
            dependencies={one.alias: one.uri for one in entry.dependencies},
            # Of a resource that is here already its owner has said what is to be said.
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
        shelf.versions[parse_version(version)] = _Kept(version, entry.digest, place)
        shelf.is_new = False
        self._placed[entry.uri] = place
        return msgspec.structs.replace(_reported(entry, outcome, version), is_new_resource=is_new)

    async def _target(self, entry: BundleEntry, one: BundleDependency) -> ImportTarget:
        """What a dependency is linked to: in the bundle, else here by its digest, else here by what was written."""
        written, resolved = parse_uri(one.uri), parse_uri(one.resolved)
        if (written.type, written.name) != (resolved.type, resolved.name):
            raise ResourceInvalid(
                f"{shorten(entry.uri)} in the archive says that {one.uri} is {one.resolved}, which has another name"
            )
        if one.resolved in self._placed:
            if self._digests[one.resolved] != one.digest:
                raise ResourceInvalid(f"{shorten(entry.uri)} needs {one.resolved} with another digest than that in the archive")
            return self._placed[one.resolved]
        found = await self._find(resolved, one.digest) or await self._find(written, one.digest) or await self._find(written)
        if found is None:
            raise ResourceInvalid(
                f"{shorten(entry.uri)} needs {one.uri}, which is neither in the archive nor here; import that first, or export "
                "with what it depends on"
            )
        return found.root.version.version_id

    async def _find(self, uri: ResourceUri, digest: str | None = None) -> VersionClosure | None:
        try:
            wanted = uri if digest is None else parse_uri(str(msgspec.structs.replace(uri, selector=digest, fragment=None)))
            return await self._centre.resolver.find(self._author.tenant_id, wanted)
        except ResourceNotFound:
            return None

    async def _shelf(self, kind: ResourceType, name: str) -> _ImportedName:
        known = self._shelves.get((kind, name))
        if known is not None:
            return known
        resource = await self._view.find(kind, name)
        if resource is not None and resource.tenant_id != self._author.tenant_id:
            resource = None
        shelf = _ImportedName(is_new=resource is None)
        if resource is not None:
            for one in (await self._view.history(resource.resource_id)).versions:
                shelf.versions[parse_version(one.version)] = _Kept(one.version, one.digest, one.version_id)
        self._shelves[kind, name] = shelf
        return shelf

    async def _measure(self, entry: BundleEntry, targets: Iterable[ImportTarget]) -> bool:
        """Whether it can be public. `ResourceTooDeep` when it would refer to too much, or too far down."""
        below = [await self._reach(target) for target in targets]
        place = len(self.batch)
        reach = _VisibleVersions(
            frozenset({place}).union(*(one.places for one in below)),
            max((one.height + 1 for one in below), default=0),
            entry.visibility == "public" and self._author.may_publish and all(one.is_public for one in below),
        )
        if len(reach.places) > MAX_NODES or reach.height > MAX_DEPTH:
            raise ResourceTooDeep(
                f"{shorten(entry.uri)} refers to more than {MAX_NODES} versions, or more than {MAX_DEPTH} levels down"
            )
        self._reached[place] = reach
        return reach.is_public

    async def _reach(self, place: ImportTarget) -> _VisibleVersions:
        if place not in self._reached:
            assert not isinstance(place, int)
            nodes = await self._view.closure(place, limit=MAX_NODES + 1)
            if place not in nodes:
                raise ResourceNotFound(place)
            level, height = {place}, -1
            while level:
                level, height = {link.target for one in level for link in nodes[one].links if link.target in nodes}, height + 1
            self._reached[place] = _VisibleVersions(frozenset(nodes), height, nodes[place].resource.visibility == "public")
        return self._reached[place]


def _checked(entry: BundleEntry) -> ResourceUri:
    """The URI says what the other members do, so that what is shown is what is done."""
    uri = parse_uri(entry.uri)
    named = ResourceUri(type=entry.type, owner=uri.owner, name=entry.name, selector=entry.version)
    if str(named) != entry.uri or parse_uri(str(named)) != named:
        raise InvalidInput(f"{shorten(entry.uri)} in the archive has another type, name or version than it says")
    parse_version(entry.version)
    return uri


def _with_parts(entry: BundleEntry, blobs: Mapping[str, bytes]) -> object:
    """The content as somebody would send it, with the data of its binary parts; they must be those that the entry names."""
    raw = read_json(blobs[entry.content], f"The content of {shorten(entry.uri)}")
    content = accept(KINDS[entry.type], raw)
    _, data, digests = detach(content)
    if data or digests != set(entry.blobs):
        raise ResourceInvalid(f"The binary parts of {shorten(entry.uri)} are not those that the archive names")
    named = {one.alias for one in entry.dependencies}
    if missing := sorted(KINDS[entry.type].references(content).keys() - named):
        raise ResourceInvalid(f"{shorten(entry.uri)} in the archive does not say what {shorten(missing[0])} is locked to")
    return msgspec.to_builtins(attach(content, blobs)) if digests else raw


def attach(value: Any, blobs: Mapping[str, bytes]) -> Any:
    """A content with the data of its binary parts in place of their digests: what `detach` undoes."""
    match value:
        case Binary(blob=str(digest)):
            return Binary(data=blobs[digest])
        case msgspec.Struct():
            members = {name: attach(getattr(value, name), blobs) for name in value.__struct_fields__}
            return msgspec.structs.replace(value, **members)
        case dict():
            return {name: attach(one, blobs) for name, one in value.items()}
        case tuple():
            return tuple(attach(one, blobs) for one in value)
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
