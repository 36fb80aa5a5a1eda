"""Shipped — the resources of the owner `system`: agents, their prompts, the built-in tools and a sandbox.

They are folders beside this file, so that a change of a prompt is reviewed like any other. A released version is never
changed: tests know the digests, and a change takes another number.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import msgspec

from agentvm.log import get_logger
from agentvm.model.base import record_from
from agentvm.model.resource import (
    SYSTEM,
    SYSTEM_TENANT,
    ResourceId,
    ResourceType,
    ResourceUri,
    VersionId,
    digest_of,
    parse_uri,
)
from agentvm.resources.archive import Bundle, BundleDependency, BundleEntry
from agentvm.resources.centre import ResourceCentre
from agentvm.resources.folder import MANIFEST, FolderItem, find_folders, read_folder
from agentvm.resources.intake import in_order, publish_bundle
from agentvm.resources.kind import accept, decode, detach, encode
from agentvm.resources.kinds import KINDS
from agentvm.resources.registry import INDEXED_TEXT_MAX, Author
from agentvm.storage.resources import NewDependency, Publication, Search

logger = get_logger(__name__)

HOME = Path(__file__).parent / "system"
AUTHOR = Author(tenant_id=SYSTEM_TENANT, actor=SYSTEM, may_publish=True)
SEARCH_MAX = 1_000


async def publish_shipped(centre: ResourceCentre) -> None:
    """Publishes missing versions. When there are none, that costs one read; so does every start but the first of a release."""
    versions = _versions(HOME)
    stored = await centre.store.resources(SYSTEM_TENANT).search(Search(scope="own", limit=SEARCH_MAX))
    latest = {(hit.resource.type, hit.resource.name): hit.resource.latest for hit in stored.items}
    if all(latest.get(key) == version for key, version in versions.items()):
        return
    if not latest:
        await centre.registry.publish(AUTHOR, [_made_here(centre, publication) for publication in _publications(HOME)])
        return
    # Versions of an older or a newer server stay: images are locked to them.
    absent = versions.keys() - latest.keys()
    imported = await publish_bundle(centre, AUTHOR, _loaded(HOME), on_conflict="skip", redescribe=True, absent=absent)
    created = [entry.uri for entry in imported if entry.outcome == "created"]
    logger.debug("shipped", versions=len(created))
    for entry in imported:
        if entry.outcome == "skipped":
            logger.warning("shipped_differs", uri=entry.uri)


def load(home: Path = HOME) -> list[FolderItem]:
    return [read_folder(folder) for folder in find_folders(home)]


# The folders do not change while a program runs: each is read once for all servers of a process.


@cache
def _loaded(home: Path) -> Bundle:
    return bundle_of(load(home))


@cache
def _publications(home: Path) -> tuple[Publication, ...]:
    """The publications for an empty store: the same as an import, without looking for existing versions."""
    bundle = _loaded(home)
    ordered = in_order(bundle.entries)
    places = {entry.uri: place for place, entry in enumerate(ordered)}
    return tuple(_publication(entry, bundle.blobs, places) for entry in ordered)


def _publication(entry: BundleEntry, blobs: Mapping[str, bytes], places: Mapping[str, int]) -> Publication:
    """A publication without ids and time: `_made_here` adds those of a server."""
    kind, content = KINDS[entry.type], blobs[entry.content]
    return record_from(
        Publication,
        entry,
        resource_id=ResourceId(""),
        version_id=VersionId(""),
        content=content,
        blobs={digest: blobs[digest] for digest in entry.blobs},
        dependencies=tuple(
            NewDependency(
                alias=dependency.alias,
                uri=dependency.uri,
                target=places[dependency.resolved],
                floating=not parse_uri(dependency.uri).is_exact,
            )
            for dependency in entry.dependencies
        ),
        text=kind.text(decode(kind, content))[:INDEXED_TEXT_MAX],
        created_by=AUTHOR.actor,
        now=0,
    )


def _made_here(centre: ResourceCentre, publication: Publication) -> Publication:
    new_id, now = centre.registry.new_id, centre.registry.clock()
    return replace(publication, resource_id=ResourceId(new_id("res")), version_id=VersionId(new_id("rver")), now=now)


def bundle_of(items: Iterable[FolderItem]) -> Bundle:
    """Resources that refer to each other by their bare names, as if they had been exported together."""
    named = {(item.type, item.name): item for item in items}
    digests = {key: item.digest() for key, item in named.items()}
    blobs: dict[str, bytes] = {}
    entries = []
    for key, item in named.items():
        content, parts, _ = detach(accept(KINDS[item.type], item.content))
        body = encode(content)
        blobs |= {**parts, digest_of(body): body}
        targets = [(alias, uri, parse_uri(uri)) for alias, uri in sorted(item.references().items())]
        dependencies = (
            BundleDependency(alias=alias, uri=uri, resolved=_exact(named[to.type, to.name]), digest=digests[to.type, to.name])
            for alias, uri, to in targets
        )
        entries.append(
            BundleEntry(
                uri=_exact(item),
                type=item.type,
                name=item.name,
                version=item.version or "",
                digest=digests[key],
                content=digest_of(body),
                blobs=tuple(sorted(parts)),
                description=item.description,
                tags=item.tags or (),
                visibility=item.visibility or "private",
                schema=item.schema,
                dependencies=tuple(dependencies),
            )
        )
    return Bundle(entries[0].uri, tuple(entries), blobs)


@cache
def _versions(home: Path) -> dict[tuple[ResourceType, str], str | None]:
    """Reads only names and versions; the rest is read when it is needed."""
    manifests = (msgspec.json.decode((folder / MANIFEST).read_bytes(), type=FolderItem) for folder in find_folders(home))
    return {(item.type, item.name): item.version for item in manifests}


def _exact(item: FolderItem) -> str:
    return str(ResourceUri(type=item.type, name=item.name, selector=item.version))
