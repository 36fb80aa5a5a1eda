"""Definitions — the templates that images are built from: list, get, register."""

import msgspec

from agentvm.errors import DefinitionNotFound
from agentvm.errors.resource import ResourceNotFound
from agentvm.model.definition import Definition
from agentvm.model.resource import SYSTEM, SYSTEM_TENANT, Resource, ResourceUri, is_reference
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.operations.pages import Page, PageRequest, page_of
from agentvm.protocol.records import DefinitionRecord
from agentvm.protocol.requests import Reply, Request

operation = OperationGroup("definitions")

READ, WRITE = "images:read", "images:write"


class DefinitionListReply(Reply):
    definitions: tuple[DefinitionRecord, ...]


class DefinitionList(Request[DefinitionListReply]):
    """A request without fields."""


@operation("definition.list", needs=READ, command=True)
async def list_all(context: Context, request: DefinitionList) -> DefinitionListReply:
    """List the definitions that images can be built from.

    The server's own, those registered since it started, then the agents of the resource centre: the tenant's, then those that
    ship with the server, at most 1,000. Agents have a `uri` and need the permission `resources:read`.
    """
    listed = [_record(definition, resource) async for definition, resource in context.workspace.templates.list()]
    return DefinitionListReply(definitions=tuple(listed))


class DefinitionBrowse(PageRequest):
    """`cursor` is the `nextCursor` of the previous page."""


class DefinitionsPage(Page[DefinitionRecord]):
    """Part of a list. `nextCursor` is absent on the last page."""


@operation("definition.browse", needs=READ, http=Http("GET", "/v1/definitions", id="definitions_list_all"))
async def browse(context: Context, request: DefinitionBrowse) -> DefinitionsPage:
    """List the definitions that images can be built from.

    In the order of `definition_list`.
    """
    listed = [_record(definition, resource) async for definition, resource in context.workspace.templates.list()]
    page = page_of(listed, request, (record.uri or record.name for record in listed))
    return DefinitionsPage(items=page.items, next_cursor=page.next_cursor)


class DefinitionGetReply(Reply):
    definition: DefinitionRecord | None


class DefinitionGet(Request[DefinitionGetReply]):
    definition_name: str


@operation(
    "definition.get",
    needs=READ,
    command=True,
    http=Http("GET", "/v1/definitions/{definition_name}", result="definition"),
    raises=(DefinitionNotFound,),
)
async def get(context: Context, request: DefinitionGet) -> DefinitionGetReply:
    """Show a definition.

    `definitionName` may also be the URI of an agent. `definition` is `null` when there is none.
    """
    try:
        definition, resource = await context.workspace.templates.get(request.definition_name)
    except (DefinitionNotFound, ResourceNotFound):
        return DefinitionGetReply(definition=None)
    record = _record(definition, resource)
    if is_reference(request.definition_name):
        record = msgspec.structs.replace(record, uri=request.definition_name)
    return DefinitionGetReply(definition=record)


class DefinitionRegisterReply(Reply):
    definition: Definition


class DefinitionRegister(Request[DefinitionRegisterReply]):
    definition: Definition


@operation("definition.register", needs=WRITE, command=True)
async def register(context: Context, request: DefinitionRegister) -> DefinitionRegisterReply:
    """Register a definition.

    The same one again changes nothing. Fails with `definition_conflict` for another one of that name, also when the tenant has
    an agent of that name, `driver_not_found`, `tool_not_found`.
    """
    await context.workspace.builder.check(request.definition)
    return DefinitionRegisterReply(definition=await context.workspace.templates.register(request.definition))


def _record(definition: Definition, resource: Resource | None = None) -> DefinitionRecord:
    uri: str | None = None
    if resource is not None:
        owner = SYSTEM if resource.tenant_id == SYSTEM_TENANT else None
        uri = str(ResourceUri(type="agents", owner=owner, name=resource.name))
    return DefinitionRecord(**msgspec.structs.asdict(definition), uri=uri)
