"""Index — keeps the latest version and the search words of a resource up to date."""

from agentvm.model.ids import TenantId
from agentvm.model.resource import ResourceVersion, latest_of
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.resources.rows import RESOURCES, VERSION_COLUMNS, decode_version, encode
from agentvm.storage.sql.resources.words import scope_of
from agentvm.storage.sql.words import words

_VERSIONS = f"""
SELECT v.version_key, {VERSION_COLUMNS}
FROM resource_versions AS v JOIN resources AS r ON r.resource_key = v.resource_key
WHERE v.resource_key = ?
"""
_VERSION = f"""
SELECT {VERSION_COLUMNS}
FROM resource_versions AS v JOIN resources AS r ON r.resource_key = v.resource_key
WHERE v.version_key = ?
"""
_SET_LATEST = "UPDATE resources SET latest_key = ? WHERE resource_key = ?"
_TEXTS = f"""
SELECT r.tenant_id, r.visibility = 'public' AND r.latest_key IS NOT NULL, r.name, r.description, v.words
FROM {RESOURCES} LEFT JOIN resource_versions AS v ON v.version_key = r.latest_key
WHERE r.resource_key = ? AND r.deleted_at IS NULL
"""
_WORDS = "SELECT word FROM resource_words WHERE resource_key = ?"
_FORGET_WORDS = "DELETE FROM resource_words WHERE resource_key = ?"
_ADD_WORD = "INSERT INTO resource_words (resource_key, word) VALUES (?, ?)"


def read_version(connection: Connection, version_key: int) -> ResourceVersion:
    return decode_version(connection.fetch(_VERSION, (version_key,))[0])


def find_latest(connection: Connection, resource_key: int) -> None:
    """Looks at every version; for when one is withdrawn or comes back."""
    by_id = {}
    for key, *row in connection.fetch(_VERSIONS, (resource_key,)):
        version = decode_version(tuple(row))
        by_id[version.version_id] = (key, version)
    latest = latest_of(version for _, version in by_id.values())
    connection.execute(_SET_LATEST, (None if latest is None else by_id[latest.version_id][0], resource_key))


def put_latest(connection: Connection, resource_key: int, latest_key: int | None, new_key: int) -> None:
    """For a version that is new: it is the latest, or the one that was before still is."""
    new = read_version(connection, new_key)
    before = None if latest_key is None else read_version(connection, latest_key)
    if latest_of((new,) if before is None else (before, new)) is new:
        connection.execute(_SET_LATEST, (new_key, resource_key))


def set_tags(connection: Connection, resource_key: int, tags: tuple[str, ...]) -> None:
    connection.execute("UPDATE resources SET tags = ? WHERE resource_key = ?", (encode(tags), resource_key))
    connection.execute(_FORGET_WORDS, (resource_key,))
    connection.many(_ADD_WORD, [(resource_key, tag) for tag in dict.fromkeys(tags)])


def reindex(connection: Connection, resource_key: int) -> None:
    """Puts the resource into the search as it is now; one that was deleted is taken out."""
    connection.search.put_resource(resource_key, None)
    for tenant_id, is_open, name, description, text in connection.fetch(_TEXTS, (resource_key,)):
        tags = " ".join(word for (word,) in connection.fetch(_WORDS, (resource_key,)))
        scope = scope_of(TenantId(tenant_id), is_open=bool(is_open))
        columns = (scope, words(name), words(tags), words(description or ""), text or "")
        connection.search.put_resource(resource_key, columns)
