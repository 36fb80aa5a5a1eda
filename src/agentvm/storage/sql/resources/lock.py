"""Lock — keeps every version that an image was built from."""

from collections.abc import Iterable

from agentvm.errors.resource import ResourceNotFound
from agentvm.model.ids import TenantId
from agentvm.model.resource import Locked
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.resources.graph import is_readable

_VERSION = "SELECT version_key FROM resource_versions WHERE version_id = ?"
_RELEASE = "DELETE FROM image_refs WHERE position = ?"
_HOLD = "INSERT INTO image_refs (position, version_key) VALUES (?, ?) ON CONFLICT DO NOTHING"


def lock_image(connection: Connection, tenant_id: TenantId, position: int, lock: Iterable[Locked]) -> None:
    """Replaces the versions that an image holds; `ResourceNotFound` for one that the tenant may not read."""
    keys: list[int] = []
    for entry in lock:
        # Asked while the image still holds what it held: that may be all that lets the tenant read it.
        if not is_readable(connection, tenant_id, entry.version_id):
            raise ResourceNotFound(entry.uri)
        keys += [key for (key,) in connection.fetch(_VERSION, (entry.version_id,))]
    connection.execute(_RELEASE, (position,))
    connection.many(_HOLD, [(position, key) for key in keys])
