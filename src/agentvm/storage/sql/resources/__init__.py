"""ResourceStore — one tenant's view of resources.

Every statement carries the tenant of this scope, or a key that was found with it. One file for each job; this one lists them.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

import anyio.to_thread

from agentvm.model.ids import TenantId
from agentvm.model.resource import Resource, ResourceId, ResourceType, ResourceVersion, VersionId
from agentvm.storage.resources import Changes, Dependents, Hits, Node, Publication, Published, Search, VersionHistory
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.records import TenantScope
from agentvm.storage.sql.resources import change, delete, graph, publish, read
from agentvm.storage.sql.resources.search import search as find_hits

T = TypeVar("T")
P = ParamSpec("P")
_Job = Callable[Concatenate[Connection, TenantId, P], T]

_INLINE_CHARACTERS = 20_000
"""Characters of text, beyond which cutting it into words would block the event loop."""


class ResourceStore(TenantScope):
    """The resources that one tenant sees."""

    async def find(self, kind: ResourceType, name: str, owner: str | None = None) -> Resource | None:
        """The resource of that owner, if visible; without an owner the tenant's own, then the server's. Never a deleted one."""
        return await self._read(read.find, kind, name, owner)

    async def get(self, resource_id: ResourceId) -> Resource | None:
        return await self._read(read.get, resource_id)

    async def history(self, resource_id: ResourceId, only: str | None = None) -> VersionHistory:
        """Empty when the resource is not in view. With `only`, of its versions just that one, also with another build.

        Of other tenants only versions whose whole closure was public: a version that was withdrawn before its resource became
        public may be locked to private ones, and is then not shown.
        """
        return await self._read(read.history, resource_id, only)

    async def find_locked(self, kind: ResourceType, name: str, owner: str | None, digest: str) -> VersionId | None:
        """A version that is out of view but that an item of the own tenant is locked to: hidden or deleted since."""
        return await self._read(read.find_locked, kind, name, owner, digest)

    async def closure(self, version_id: VersionId, *, limit: int) -> dict[VersionId, Node]:
        """The version and everything it is locked to, at most so many; empty when it is not in view.

        In view are the versions of resources in view, and the versions that an item of the own tenant is locked to.
        """
        return await self._read(graph.read_closure, version_id, limit)

    async def publish(self, publications: Sequence[Publication], *, dry_run: bool = False) -> tuple[Published, ...]:
        """All of them in one commit, or none. A dry run returns or raises the same, and stores nothing.

        `ResourceExists`, `ResourceVersionExists`, `PreconditionFailed`; `ResourceNotFound` when a target is gone in the
        meantime; `ResourceCycle` when floating references of latest versions would lead back to the resource;
        `ResourceVisibilityConflict` when a public resource would be locked to a private one; `Conflict` for the name of a
        resource that was deleted by force less than 30 days ago; `NotFound` when the tenant was deleted.
        """
        prepare = partial(publish.prepare, self._tenant_id, publications)
        is_long = sum(len(publication.text) for publication in publications) > _INLINE_CHARACTERS
        work = await anyio.to_thread.run_sync(prepare) if is_long else prepare()
        return await self._database.write(partial(publish.undone, work) if dry_run else work)

    async def change(self, resource_id: ResourceId, changes: Changes, now: int) -> Resource | None:
        """None when there is none of its own. `ResourceVisibilityConflict` as for `publish`."""
        return await self._write(change.change, resource_id, changes, now)

    async def point(self, resource_id: ResourceId, tag: str, version: str | None, now: int) -> bool:
        """Lets a tag point to a version, or removes it for None; False when either is not there."""
        return await self._write(change.point, resource_id, tag, version, now)

    async def yank(self, resource_id: ResourceId, version: str, at: int | None, now: int) -> ResourceVersion | None:
        """Withdraws a version, or for `at=None` brings it back; the latest is computed again. None when it is not there.

        `ResourceVisibilityConflict` as for `publish` when a version of a public resource is brought back.
        """
        return await self._write(change.yank, resource_id, version, at, now)

    async def delete(self, resource_id: ResourceId, *, force: bool, now: int) -> bool:
        """False when there is none of its own. `ResourceInUse` unless `force`, which keeps versions that others are locked to.

        Its `details` name the own `referrers` (URIs with their versions, then ids of images) and count the `foreign` ones.
        """
        resource_key = await self._write(delete.begin, resource_id, force=force, now=now)
        if resource_key is None:
            return False
        while await self._database.write(lambda connection: delete.drop_slice(connection, resource_key, force=force)):
            pass
        return True

    async def search(self, search: Search) -> Hits:
        """Best first if there is a text, else by name."""
        return await self._database.read(lambda connection: find_hits(connection, self._tenant_id, search), heavy=True)

    async def dependents(self, resource_id: ResourceId) -> Dependents:
        return await self._read(read.dependents, resource_id)

    async def count(self) -> int:
        """The number of the tenant's own resources, without deleted ones."""
        return await self._read(read.count)

    async def blob_size(self, digest: str) -> int | None:
        """None unless a visible version contains it: knowing a digest grants no access."""
        return await self._read(graph.readable_blob_size, digest)

    async def blob(self, version_id: VersionId, digest: str) -> bytes | None:
        """A binary part of a version in view."""
        return await self._read(read.blob, version_id, digest)

    async def _read(self, job: _Job[P, T], *args: P.args, **about: P.kwargs) -> T:
        return await self._database.read(lambda connection: job(connection, self._tenant_id, *args, **about))

    async def _write(self, job: _Job[P, T], *args: P.args, **about: P.kwargs) -> T:
        return await self._database.write(lambda connection: job(connection, self._tenant_id, *args, **about))
