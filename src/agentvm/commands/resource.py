"""Resource commands — for clients that have a socket and nothing else: register, publish, discover, resolve."""

from collections.abc import Collection, Mapping
from typing import Any

from msgspec import UNSET

from agentvm.blueprint.definition import Definitions
from agentvm.blueprint.templates import check_name_free
from agentvm.commands.call import Call
from agentvm.errors import InvalidInput, shorten
from agentvm.model.account import AuditEntry
from agentvm.model.ids import TenantId, UserId
from agentvm.model.resource import Resource, ResourceId, ResourceType, ResourceUri, parse_type
from agentvm.model.semver import Bump
from agentvm.protocol import commands as ask
from agentvm.protocol.records import LockRecord, ResourceRecord
from agentvm.resources.agent import to_definition
from agentvm.resources.centre import ResourceCentre
from agentvm.resources.kind import accept
from agentvm.resources.kinds import KINDS
from agentvm.resources.registry import Author, NewVersion, VersionChange
from agentvm.resources.runnable import why_idle
from agentvm.storage.resources import Changes, Published, Search
from agentvm.tenants.tenancy import Tenancy
from agentvm.vm import Peer


async def register(call: Call, command: ask.ResourceRegister) -> ask.ResourceRegisterReply:
    peer = call.peer
    draft = NewVersion(
        type=parse_type(command.type),
        name=command.resource_name,
        content=command.content,
        version=command.version,
        schema=command.schema,
        dependencies=command.dependencies,
        description=command.description,
        tags=command.tags,
        visibility=command.visibility,
        pointer=command.tag,
    )
    done = await add(peer.vm.tenancy, peer.vm.resources, peer.vm.definitions, _author(peer), peer.principal.user_id, draft)
    return await _written(peer, "resource.register", done, command.content)


async def publish(call: Call, command: ask.ResourcePublish) -> ask.ResourceRegisterReply:
    peer, registry = call.peer, call.peer.vm.resources.registry
    if command.content is None and command.schema is None and command.dependencies is None:
        raise InvalidInput("A new version needs its content, schema or dependencies")
    check_numbering(command.version, command.bump)
    if "@" in command.uri or "#" in command.uri:
        raise InvalidInput(
            f"uri must name the resource alone, unlike {shorten(command.uri)!r}; its new number goes into version"
        )
    resource = await registry.find(peer.tenant_id, command.uri)
    revision = VersionChange(
        content=command.content,
        schema=UNSET if command.schema is None else command.schema,
        dependencies=command.dependencies,
        version=command.version,
        bump=command.bump or "patch",
        changes=Changes(description=command.description, tags=command.tags, visibility=command.visibility),
        pointer=command.tag,
    )
    who = peer.principal.user_id
    done = await add_version(peer.vm.tenancy, peer.vm.resources, _author(peer), who, resource.resource_id, revision)
    return await _written(peer, "resource.change", done, command.content)


async def list_some(call: Call, command: ask.ResourceList) -> ask.ResourceListReply:
    search = Search(
        text=command.q,
        type=None if command.type is None else parse_type(command.type),
        tag=command.tag,
        owner=command.owner,
        scope=command.scope,
        after=command.cursor,
        limit=command.limit,
    )
    found = await call.peer.vm.resources.store.resources(call.peer.tenant_id).search(search)
    records = tuple(shown(hit.resource, call.peer.tenant_id, uses=hit.uses) for hit in found.items)
    return ask.ResourceListReply(records=records, total=found.total, next_cursor=found.next)


async def resolve(call: Call, command: ask.ResourceResolve) -> ask.ResourceResolveReply:
    found = await call.peer.vm.resources.resolver.resolve(call.peer.tenant_id, command.uri, args=command.args)
    return ask.ResourceResolveReply(
        uri=found.uri,
        resolved=found.resolved,
        digest=found.digest,
        rendered=found.rendered,
        lock=tuple(LockRecord(uri=entry.uri, version=entry.version, digest=entry.digest) for entry in found.lock),
        warnings=tuple(f"{warned.uri}: {warned.message}" for warned in found.warnings),
    )


async def add(
    tenancy: Tenancy,
    centre: ResourceCentre,
    definitions: Definitions,
    author: Author,
    user_id: UserId | None,
    draft: NewVersion,
) -> Published:
    """Registers within the tenant's limits, whoever asks on whichever way."""
    tenant_id = author.tenant_id
    if draft.type == "agents":
        content: Any = accept(KINDS["agents"], draft.content)
        await check_name_free(tenant_id, definitions, draft.name, to_definition(draft.name, content))
    count = centre.store.resources(tenant_id).count
    async with tenancy.quotas.adding(tenant_id, user_id, "resources", count):
        stored = centre.store.accounts(tenant_id).quotas.storage_bytes
        await tenancy.quotas.check(tenant_id, user_id, "storage_bytes", stored)
        return await centre.registry.register(author, draft)


async def add_version(
    tenancy: Tenancy,
    centre: ResourceCentre,
    author: Author,
    user_id: UserId | None,
    resource_id: ResourceId,
    revision: VersionChange,
) -> Published:
    """Publishes a version of an own resource within the tenant's limits, whoever asks on whichever way."""
    stored = centre.store.accounts(author.tenant_id).quotas.storage_bytes
    await tenancy.quotas.check(author.tenant_id, user_id, "storage_bytes", stored)
    return await centre.registry.revise(author, resource_id, revision)


def check_numbering(version: str | None, bump: Bump | None) -> None:
    if version is not None and bump is not None:
        raise InvalidInput("Give version or bump, not both")


def _author(peer: Peer) -> Author:
    one = peer.principal
    return Author(tenant_id=peer.tenant_id, actor=one.actor, may_publish=one.may("resources:publish"))


async def _written(peer: Peer, action: str, done: Published, content: dict[str, object] | None) -> ask.ResourceRegisterReply:
    """Enters it into the audit log, and says what was made."""
    entry = AuditEntry(
        at=peer.vm.clock(),
        tenant_id=peer.tenant_id,
        actor=peer.principal.actor,
        action=action,
        target=f"{done.resource.type}/{done.resource.name}",
        result="ok",
    )
    await peer.accounts.audit.add(entry)
    record = shown(done.resource, peer.tenant_id)
    version = done.version
    return ask.ResourceRegisterReply(
        record=record,
        uri=f"{record.uri}@{version.version}",
        version=version.version,
        digest=version.digest,
        warnings=warnings_about(done.resource.type, content, peer.vm.runtime.tools.names(peer.tenant_id)),
    )


def warnings_about(kind: ResourceType, content: object, tools: Collection[str]) -> tuple[str, ...]:
    """What of a content that was just published this server does not act upon."""
    why = why_idle(kind, content, tools) if isinstance(content, Mapping) else None
    return () if why is None else (why,)


def shown(resource: Resource, viewer: TenantId, *, uses: int | None = None) -> ResourceRecord:
    return ResourceRecord(
        id=resource.resource_id,
        uri=uri_of(resource, viewer),
        type=resource.type,
        owner=resource.owner,
        name=resource.name,
        visibility=resource.visibility,
        latest=resource.latest,
        description=resource.description,
        tags=resource.tags,
        deprecated=resource.deprecated,
        created_at=resource.created_at,
        updated_at=resource.updated_at,
        uses=uses,
    )


def uri_of(resource: Resource, viewer: TenantId) -> str:
    """Without an owner if it is the viewer's own, and without a version."""
    owner = None if resource.tenant_id == viewer else resource.owner
    return str(ResourceUri(type=resource.type, owner=owner, name=resource.name))
