"""Bundle — takes resources out of a server as an archive, and archives in: all of one, or nothing."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio.to_thread

from agentvm.errors.resource import ResourceNotFound, ResourceTooLarge
from agentvm.model.ids import TenantId
from agentvm.model.resource import ResourceUri, digest_of
from agentvm.resources.archive import (
    UNPACKED_MAX_BYTES,
    Bundle,
    BundleDependency,
    BundleEntry,
    FileCollection,
    read_archive,
    write_archive,
)
from agentvm.resources.intake import ImportedEntry, OnConflict, publish_bundle
from agentvm.resources.kind import decode, detach, exact_uri
from agentvm.resources.kinds import KINDS
from agentvm.resources.registry import Author
from agentvm.resources.resolver import VersionClosure
from agentvm.storage.resources import Node

if TYPE_CHECKING:
    from agentvm.resources.centre import ResourceCentre
    from agentvm.storage.sql.resources import ResourceStore


SaveCollections = Callable[[Iterable[Node]], Awaitable[tuple[Sequence[FileCollection], Mapping[str, bytes]]]]
"""Returns the collections that knowledge bases name, and the bytes of their documents by digest."""


async def export_bundle(
    centre: "ResourceCentre",
    tenant_id: TenantId,
    uri: ResourceUri,
    *,
    deps: bool = True,
    collections: SaveCollections | None = None,
) -> bytes:
    """Returns an archive of the version, with `deps` of everything it is locked to, and with `collections` their documents."""
    closure = await centre.resolver.find(tenant_id, uri)
    home = closure.root.resource.tenant_id
    chosen = tuple(closure.nodes.values()) if deps else (closure.root,)
    bundle = await collect(centre, tenant_id, closure, chosen, home)
    if collections is not None:
        saved, bodies = await collections(chosen)
        bundle = replace(bundle, collections=tuple(saved), blobs={**bundle.blobs, **bodies})
    return await anyio.to_thread.run_sync(write_archive, bundle)


async def collect(
    centre: "ResourceCentre", tenant_id: TenantId, closure: VersionClosure, chosen: Iterable[Node], home: TenantId
) -> Bundle:
    """Returns the chosen versions of a closure, with their binary parts. Names of `home` are without their owner."""
    view = centre.store.resources(tenant_id)
    blobs: dict[str, bytes] = {}
    entries: list[BundleEntry] = []
    for node in chosen:
        parts = await _parts(view, node)
        entry = _entry(closure, node, home, parts)
        entries.append(entry)
        blobs |= {**parts, entry.content: node.content}
        if sum(map(len, blobs.values())) > UNPACKED_MAX_BYTES:
            raise ResourceTooLarge(
                f"{exact_uri(closure.root, home)} is too large for an archive, which holds {UNPACKED_MAX_BYTES} bytes; "
                "export without deps, or build from fewer resources"
            )
    return Bundle(exact_uri(closure.root, home), tuple(entries), blobs)


async def import_bundle(
    centre: "ResourceCentre", author: Author, data: bytes | Bundle, *, on_conflict: OnConflict = "fail", dry_run: bool = False
) -> list[ImportedEntry]:
    """Imports a whole archive, or one that was read, in one commit. `ResourceInvalid` and its siblings say why nothing was
    imported.

    `on_conflict` is about versions that exist with other content; `fail` raises `ResourceVersionExists`, except in a dry run.
    """
    bundle = data if isinstance(data, Bundle) else await anyio.to_thread.run_sync(read_archive, data)
    return await publish_bundle(centre, author, bundle, on_conflict=on_conflict, dry_run=dry_run)


async def _parts(view: "ResourceStore", node: Node) -> dict[str, bytes]:
    """The binary parts of a version, by digest."""
    parts: dict[str, bytes] = {}
    for digest in await anyio.to_thread.run_sync(_named_parts, node):
        body = await view.blob(node.version.version_id, digest)
        if body is None:
            raise ResourceNotFound(digest)
        parts[digest] = body
    return parts


def _named_parts(node: Node) -> frozenset[str]:
    return detach(decode(KINDS[node.resource.type], node.content))[2]


def _entry(closure: VersionClosure, node: Node, home: TenantId, parts: Mapping[str, bytes]) -> BundleEntry:
    resource, version = node.resource, node.version
    links = [(link, closure.nodes[link.target]) for link in sorted(node.links, key=lambda link: link.alias)]
    return BundleEntry(
        uri=exact_uri(node, home),
        type=resource.type,
        name=resource.name,
        version=version.version,
        digest=version.digest,
        content=digest_of(node.content),
        blobs=tuple(sorted(parts)),
        description=resource.description,
        tags=resource.tags,
        visibility=resource.visibility,
        deprecated=resource.deprecated,
        schema=version.schema,
        dependencies=tuple(
            BundleDependency(alias=link.alias, uri=link.uri, resolved=exact_uri(target, home), digest=target.version.digest)
            for link, target in links
        ),
    )


__all__ = ["ImportedEntry", "OnConflict", "collect", "export_bundle", "import_bundle"]
