"""Shipped — what comes with the server: agents, their prompts, the built-in tools and a sandbox, owned by `system`.

They are folders beside this file, so that a change of a prompt is read like any other. A version that was released is never
changed: tests know the digests, and who changes one gives it another number.
"""

from collections.abc import Iterable
from functools import cache
from pathlib import Path

import msgspec

from agentvm.log import get_logger
from agentvm.model.resource import SYSTEM, SYSTEM_TENANT, ResourceType, ResourceUri, digest_of, parse_uri
from agentvm.resources.archive import Bundle, Dependency, Entry
from agentvm.resources.centre import ResourceCentre
from agentvm.resources.folder import MANIFEST, FolderItem, find_folders, read_folder
from agentvm.resources.intake import take_in
from agentvm.resources.kind import accept, detach, encode
from agentvm.resources.kinds import KINDS
from agentvm.resources.registry import Author
from agentvm.storage.resources import Search

logger = get_logger(__name__)

HOME = Path(__file__).parent / "system"
AUTHOR = Author(tenant_id=SYSTEM_TENANT, actor=SYSTEM, may_publish=True)
MANY = 1_000


async def ship(centre: ResourceCentre) -> None:
    """Publishes what is missing. When nothing is, that costs one read; so does every start but the first of a release."""
    wanted = _versions()
    found = await centre.store.resources(SYSTEM_TENANT).search(Search(scope="own", limit=MANY))
    latest = {(hit.resource.type, hit.resource.name): hit.resource.latest for hit in found.items}
    if all(latest.get(key) == version for key, version in wanted.items()):
        return
    # What an older server left, or a newer one, stays: images are locked to it.
    absent = wanted.keys() - latest.keys()
    done = await take_in(centre, AUTHOR, _loaded(), on_conflict="skip", redescribe=True, absent=absent)
    created = [entry.uri for entry in done if entry.outcome == "created"]
    logger.debug("shipped", versions=len(created))
    for entry in done:
        if entry.outcome == "skipped":
            logger.warning("shipped_differs", uri=entry.uri)


def load() -> list[FolderItem]:
    return [read_folder(folder) for folder in find_folders(HOME)]


@cache
def _loaded() -> Bundle:
    """Once for all servers of a process."""
    return bundle_of(load())


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
            Dependency(alias=alias, uri=uri, resolved=_exact(named[to.type, to.name]), digest=digests[to.type, to.name])
            for alias, uri, to in targets
        )
        entries.append(
            Entry(
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
def _versions() -> dict[tuple[ResourceType, str], str | None]:
    """Only what says which there are: the rest is read when it is needed. Once for all servers of a process."""
    manifests = (msgspec.json.decode((folder / MANIFEST).read_bytes(), type=FolderItem) for folder in find_folders(HOME))
    return {(one.type, one.name): one.version for one in manifests}


def _exact(item: FolderItem) -> str:
    return str(ResourceUri(type=item.type, name=item.name, selector=item.version))
