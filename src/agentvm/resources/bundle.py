"""Bundle — takes resources out of a server as an archive, and archives in: all of one, or nothing."""

from collections.abc import Mapping

import anyio.to_thread

from agentvm.errors.resource import ResourceNotFound, ResourceTooLarge
from agentvm.model.ids import TenantId
from agentvm.model.resource import ResourceUri, digest_of
from agentvm.resources.archive import (
    MAX_BUNDLE,
    MAX_UNPACKED,
    Bundle,
    BundleDependency,
    BundleEntry,
    read_archive,
    write_archive,
)
from agentvm.resources.centre import ResourceCentre
from agentvm.resources.intake import ImportedEntry, OnConflict, take_in
from agentvm.resources.kind import decode, detach, exact_uri
from agentvm.resources.kinds import KINDS
from agentvm.resources.registry import Author
from agentvm.resources.resolver import VersionClosure
from agentvm.storage.resources import Node
from agentvm.storage.sql.resources import ResourceStore


async def export_bundle(centre: ResourceCentre, tenant_id: TenantId, uri: ResourceUri, *, deps: bool = True) -> bytes:
    """An archive of the version, and with `deps` of everything it is locked to."""
    found = await centre.resolver.find(tenant_id, uri)
    home = found.root.resource.tenant_id
    view = centre.store.resources(tenant_id)
    blobs: dict[str, bytes] = {}
    entries: list[BundleEntry] = []
    for node in found.nodes.values() if deps else (found.root,):
        parts = await _parts(view, node)
        entry = _entry(found, node, home, parts)
        entries.append(entry)
        blobs |= {**parts, entry.content: node.content}
        if sum(map(len, blobs.values())) > MAX_UNPACKED:
            raise ResourceTooLarge(f"{uri} is too large for an archive, which holds {MAX_UNPACKED} bytes; export without deps")
    bundle = Bundle(exact_uri(found.root, home), tuple(entries), blobs)
    return await anyio.to_thread.run_sync(write_archive, bundle)


async def import_bundle(
    centre: ResourceCentre, author: Author, data: bytes, *, on_conflict: OnConflict = "fail", dry_run: bool = False
) -> list[ImportedEntry]:
    """Everything in the archive, in one commit. `ResourceInvalid` and the like say why nothing was taken.

    `on_conflict` is about versions that are here with other content; `fail` raises `ResourceVersionExists`, unless it is only
    asked what would happen.
    """
    bundle = await anyio.to_thread.run_sync(read_archive, data)
    return await take_in(centre, author, bundle, on_conflict=on_conflict, dry_run=dry_run)


async def _parts(view: ResourceStore, node: Node) -> dict[str, bytes]:
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


def _entry(found: VersionClosure, node: Node, home: TenantId, parts: Mapping[str, bytes]) -> BundleEntry:
    one, version = node.resource, node.version
    links = [(link, found.nodes[link.target]) for link in sorted(node.links, key=lambda link: link.alias)]
    return BundleEntry(
        uri=exact_uri(node, home),
        type=one.type,
        name=one.name,
        version=version.version,
        digest=version.digest,
        content=digest_of(node.content),
        blobs=tuple(sorted(parts)),
        description=one.description,
        tags=one.tags,
        visibility=one.visibility,
        deprecated=one.deprecated,
        schema=version.schema,
        dependencies=tuple(
            BundleDependency(alias=link.alias, uri=link.uri, resolved=exact_uri(target, home), digest=target.version.digest)
            for link, target in links
        ),
    )


__all__ = ["MAX_BUNDLE", "ImportedEntry", "OnConflict", "export_bundle", "import_bundle"]
