"""Publish — new versions, a whole batch in one commit. Facts that can have changed since the publisher looked are checked
here."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentvm.errors import Conflict, PreconditionFailed
from agentvm.errors.resource import ResourceCycle, ResourceExists, ResourceNotFound, ResourceVersionExists
from agentvm.model.ids import TenantId
from agentvm.model.resource import SYSTEM_TENANT, ResourceUri, digest_of
from agentvm.model.semver import parse_version
from agentvm.storage.resources import NewDependency, Publication, Published
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.resources.graph import check_is_public, check_leads_nowhere_back, readable_blob_size
from agentvm.storage.sql.resources.index import put_latest, read_version, reindex, set_tags
from agentvm.storage.sql.resources.rows import (
    RESERVED_MS,
    RESOURCE_COLUMNS,
    RESOURCES,
    VERSION_IN_VIEW,
    decode_resource,
    encode,
)
from agentvm.storage.sql.rows import refuse_deleted
from agentvm.storage.sql.words import words

_FIND = """
SELECT resource_key, visibility, latest_key FROM resources
WHERE tenant_id = ? AND type = ? AND name = ? AND deleted_at IS NULL
"""
_RESERVED = "SELECT 1 FROM resources WHERE tenant_id = ? AND type = ? AND name = ? AND deleted_at > ?"
_DIGEST = "SELECT digest FROM resource_versions WHERE version_key = ?"
_SAME_RANK = "SELECT version_key, version, digest FROM resource_versions WHERE resource_key = ? AND rank = ?"
_ADD_RESOURCE = """
INSERT INTO resources (resource_id, tenant_id, type, name, visibility, tags, created_at, updated_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
RETURNING resource_key
"""
# None leaves what is there; an empty text removes it.
UPDATE_RESOURCE = """
UPDATE resources
SET description = CASE ?1 WHEN '' THEN NULL ELSE coalesce(?1, description) END,
    deprecated = CASE ?2 WHEN '' THEN NULL ELSE coalesce(?2, deprecated) END,
    visibility = coalesce(?3, visibility), updated_at = ?4
WHERE resource_key = ?5
"""
_ADD_VERSION = """
INSERT INTO resource_versions (version_id, resource_key, version, rank, digest, content, size, schema, words, created_by,
                               created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
RETURNING version_key
"""
# One that was about to be dropped is wanted again.
_ADD_BLOB = "INSERT INTO resource_blobs (digest, body) VALUES (?, ?) ON CONFLICT (digest) DO UPDATE SET unused_since = NULL"
_ADD_VERSION_BLOB = "INSERT INTO version_blobs (version_key, digest) VALUES (?, ?)"
_ADD_DEPENDENCY = "INSERT INTO resource_deps (version_key, alias, uri, target_key, floating) VALUES (?, ?, ?, ?, ?)"
_TARGET = f"""
SELECT v.version_key FROM resource_versions AS v JOIN resources AS r ON r.resource_key = v.resource_key
WHERE v.version_id = ?2 AND {VERSION_IN_VIEW}
"""
PUT_TAG = """
INSERT INTO resource_tags (resource_key, tag, version_key) VALUES (?, ?, ?)
ON CONFLICT (resource_key, tag) DO UPDATE SET version_key = excluded.version_key
"""
_SHARED = "SELECT version_key FROM resource_versions WHERE resource_key = ? AND yanked_at IS NULL"
_OPEN = "UPDATE resource_versions SET is_open = 1 WHERE version_key = ?"
_RESOURCE = f"SELECT {RESOURCE_COLUMNS} FROM {RESOURCES} WHERE r.resource_key = ?"

PublishWork = Callable[[Connection], tuple[Published, ...]]


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A publication with all that can be worked out before the writer's time is taken."""

    publication: Publication
    content_digest: str
    rank: str
    schema: bytes | None
    words: str


@dataclass(frozen=True, slots=True)
class _Entered:
    """Where a publication is in the tables."""

    resource_key: int
    version_key: int
    created: bool
    turned_public: bool = False


def undone(work: PublishWork, connection: Connection) -> tuple[Published, ...]:
    """Does the work and takes it back; the result, or the error, is that of the work."""
    connection.execute("SAVEPOINT dry_run")
    published = work(connection)
    connection.execute("ROLLBACK TO SAVEPOINT dry_run")
    return published


def prepare(tenant_id: TenantId, publications: Sequence[Publication]) -> PublishWork:
    """The batch as work for the database. `ValueError` for a binary part whose digest differs."""
    _refuse_rings(publications)
    prepared = [_prepare(publication) for publication in publications]

    def work(connection: Connection) -> tuple[Published, ...]:
        refuse_deleted(connection, tenant_id)
        entered = [_enter(connection, tenant_id, publication) for publication in prepared]
        for place, publication in zip(entered, publications, strict=True):
            if place.created:
                _lock(connection, tenant_id, place, publication.dependencies, entered)
        for place in entered:
            if place.created:
                check_leads_nowhere_back(connection, tenant_id, place.resource_key, place.version_key)
                open_versions(connection, tenant_id, place.resource_key, None if place.turned_public else place.version_key)
        for resource_key in dict.fromkeys(place.resource_key for place in entered if place.created):
            reindex(connection, resource_key)
        return tuple(_published(connection, place) for place in entered)

    return work


def open_versions(connection: Connection, tenant_id: TenantId, resource_key: int, version_key: int | None) -> None:
    """Shows a version of a public resource to other tenants, for None all that are not withdrawn; first checks that it may."""
    if connection.fetch("SELECT visibility FROM resources WHERE resource_key = ?", (resource_key,))[0][0] != "public":
        return
    keys = [key for (key,) in connection.fetch(_SHARED, (resource_key,))] if version_key is None else [version_key]
    for key in keys:
        check_is_public(connection, tenant_id, key)
        connection.execute(_OPEN, (key,))


def _prepare(publication: Publication) -> _Prepared:
    for digest, body in publication.blobs.items():
        # Binary parts are shared across tenants, so one under a foreign digest would change other people's resources.
        if digest_of(body) != digest:
            raise ValueError(f"{publication.name}: {digest} is not the digest of the binary part that is given for it")
    return _Prepared(
        publication,
        digest_of(publication.content),
        str(parse_version(publication.version)),
        None if publication.schema is None else encode(publication.schema),
        words(publication.text),
    )


def _refuse_rings(publications: Sequence[Publication]) -> None:
    """Versions that are there already cannot lead to new ones; but new ones can lead to each other."""
    done: set[int] = set()

    def walk(place: int, path: tuple[int, ...]) -> None:
        if place in path:
            ring = (*path[path.index(place) :], place)
            raise ResourceCycle([_uri(publications[index]) for index in ring])
        if place not in done:
            for dependency in publications[place].dependencies:
                if isinstance(dependency.target, int):
                    if not 0 <= dependency.target < len(publications):
                        raise ValueError(f"{dependency.uri} points to place {dependency.target}, which is not in the batch")
                    walk(dependency.target, (*path, place))
            done.add(place)

    for place in range(len(publications)):
        walk(place, ())


def _uri(publication: Publication) -> str:
    return str(ResourceUri(type=publication.type, name=publication.name))


def _enter(connection: Connection, tenant_id: TenantId, prepared: _Prepared) -> _Entered:
    publication = prepared.publication
    rows = connection.fetch(_FIND, (tenant_id, publication.type, publication.name))
    resource_key, visibility, latest_key = rows[0] if rows else (None, None, None)
    if publication.expected is not None:
        _check_latest(connection, publication, latest_key)
    if resource_key is None:
        resource_key = _add_resource(connection, tenant_id, publication)
    for version_key, version, digest in connection.fetch(_SAME_RANK, (resource_key, prepared.rank)):
        if digest != publication.digest:
            if publication.is_new:
                break
            raise ResourceVersionExists(
                f"{_uri(publication)} has a version {version} already, with other content: choose another version"
            )
        return _Entered(resource_key, version_key, created=False)
    if rows and publication.is_new:
        raise ResourceExists(
            f"There is already {_uri(publication)}; to publish another version of it: PUT /v1/resources/{{id}}, "
            "resource_publish on a socket, or avm resource push --bump patch"
        )
    target = "public" if tenant_id == SYSTEM_TENANT else publication.visibility
    about = (publication.description, publication.deprecated, target, publication.now)
    connection.execute(UPDATE_RESOURCE, (*about, resource_key))
    if publication.tags is not None:
        set_tags(connection, resource_key, publication.tags)
    version_key = _add_version(connection, tenant_id, resource_key, prepared)
    put_latest(connection, resource_key, latest_key, version_key)
    if publication.pointer is not None:
        connection.execute(PUT_TAG, (resource_key, publication.pointer, version_key))
    return _Entered(resource_key, version_key, created=True, turned_public=target == "public" != visibility)


def _check_latest(connection: Connection, publication: Publication, latest_key: int | None) -> None:
    latest = "none" if latest_key is None else connection.fetch(_DIGEST, (latest_key,))[0][0]
    if latest != publication.expected:
        raise PreconditionFailed(f"{_uri(publication)} has changed: its latest version has the digest {latest}. Read it again")


def _add_resource(connection: Connection, tenant_id: TenantId, publication: Publication) -> int:
    if connection.fetch(_RESERVED, (tenant_id, publication.type, publication.name, publication.now - RESERVED_MS)):
        raise Conflict(
            f"{_uri(publication)} was deleted by force less than 30 days ago, while others may depend on it: "
            "choose another name"
        )
    name = (publication.resource_id, tenant_id, publication.type, publication.name)
    return int(connection.fetch(_ADD_RESOURCE, (*name, "private", encode(()), publication.now, publication.now))[0][0])


def _add_version(connection: Connection, tenant_id: TenantId, resource_key: int, prepared: _Prepared) -> int:
    publication = prepared.publication
    blobs = {digest: len(body) for digest, body in publication.blobs.items()}
    for digest in publication.kept_blobs - publication.blobs.keys():
        stored_size = readable_blob_size(connection, tenant_id, digest)
        if stored_size is None:
            raise ResourceNotFound(digest)
        blobs[digest] = stored_size
    connection.many(_ADD_BLOB, [(prepared.content_digest, publication.content), *publication.blobs.items()])
    name = (publication.version_id, resource_key, publication.version, prepared.rank, publication.digest)
    size = len(publication.content) + sum(blobs.values())
    about = (prepared.content_digest, size, prepared.schema, prepared.words, publication.created_by, publication.now)
    version_key = int(connection.fetch(_ADD_VERSION, (*name, *about))[0][0])
    connection.many(_ADD_VERSION_BLOB, [(version_key, digest) for digest in blobs])
    return version_key


def _lock(
    connection: Connection,
    tenant_id: TenantId,
    place: _Entered,
    dependencies: Sequence[NewDependency],
    entered: Sequence[_Entered],
) -> None:
    for dependency in dependencies:
        if isinstance(dependency.target, int):
            target_key = entered[dependency.target].version_key
        else:
            rows = connection.fetch(_TARGET, (tenant_id, dependency.target))
            if not rows:
                raise ResourceNotFound(dependency.uri)
            target_key = rows[0][0]
        connection.execute(
            _ADD_DEPENDENCY, (place.version_key, dependency.alias, dependency.uri, target_key, dependency.floating)
        )


def _published(connection: Connection, place: _Entered) -> Published:
    resource = decode_resource(connection.fetch(_RESOURCE, (place.resource_key,))[0])
    return Published(resource, read_version(connection, place.version_key), place.created)
