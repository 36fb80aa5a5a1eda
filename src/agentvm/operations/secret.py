"""Secrets — values that a tenant entrusts to the server, such as provider keys, and the tools that may use them.

Values are written and never shown.
"""

from typing import Annotated

import msgspec

from agentvm.errors import InvalidInput, not_found, shorten
from agentvm.errors.resource import ResourceNotFound, ResourceUriInvalid
from agentvm.model.base import Record, record_from
from agentvm.model.resource import ResourceUri, is_reference, parse_uri
from agentvm.model.secret import Secret
from agentvm.model.secret_grant import STDIO, SecretGrant, SecretUse
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.operations.pages import Page, PageRequest, page_of
from agentvm.protocol.requests import Request
from agentvm.resources.sandbox import is_host_entry
from agentvm.resources.tool_entry import SECRET_NAME, SERVER_ID

operation = OperationGroup("secrets")

ADMIN = "tenants:admin"

HOSTS_MAX = 100
_ALL, _ONE, _GRANTS = "/v1/secrets", "/v1/secrets/{name}", "/v1/grants"


class SecretView(Record):
    name: str
    updated_at: int


class SecretList(PageRequest):
    """A page of the names."""


@operation("secret.list", needs=ADMIN, http=Http("GET", _ALL))
async def list_all(context: Context, request: SecretList) -> Page[SecretView]:
    """List the names of secrets."""
    items = [SecretView(name=name, updated_at=at) for name, at in await context.tenancy.vault.names(context.tenant_id)]
    return page_of(items, request, (item.name for item in items))


class SecretPut(Request[None]):
    name: str
    value: str

    def __repr__(self) -> str:
        return "SecretPut('***')"


@operation("secret.put", needs=ADMIN, audit="secret.put", http=Http("PUT", _ONE, names=("SecretRequest", None)))
async def put(context: Context, request: SecretPut) -> None:
    """Store a secret."""
    tenancy = context.tenancy
    tenancy.own_keys.check_secret(request.name)
    await context.workspace.check_storage(len(request.value.encode("utf-8", "surrogatepass")))
    await tenancy.vault.put(context.tenant_id, request.name, Secret(request.value))
    tenancy.own_keys.forget(context.tenant_id)
    if context.vm.channels is not None:
        context.vm.channels.changed()


class SecretDelete(Request[None]):
    name: str


@operation("secret.delete", needs=ADMIN, audit="secret.delete", http=Http("DELETE", _ONE))
async def delete(context: Context, request: SecretDelete) -> None:
    """Delete a secret, and its grants."""
    if not await context.tenancy.vault.remove(context.tenant_id, request.name):
        raise not_found("Secret", request.name)
    context.tenancy.own_keys.forget(context.tenant_id)


class GrantView(Record):
    """`tool` is the URI of a tool, or `stdio:<id>` for an MCP server of the operator."""

    secret: str
    tool: str
    use: SecretUse = msgspec.field(name="as")
    hosts: tuple[str, ...]
    granted_by: str
    granted_at: int


class GrantList(PageRequest):
    """`secret` narrows the list to one secret."""

    secret: str | None = None


@operation("secret.grants", needs=ADMIN, http=Http("GET", _GRANTS))
async def list_grants(context: Context, request: GrantList) -> Page[GrantView]:
    """List the tools that may use secrets."""
    grants = [grant for grant in await context.accounts.grants.list() if request.secret in (None, grant.secret)]
    names = [f"{grant.secret} {grant.tool} {grant.use}" for grant in grants]
    return page_of([_view(grant) for grant in grants], request, names)


class GrantPut(Request[GrantView]):
    """`tool` is a URI, `owner/name`, `name`, or `stdio:<id>`.

    `hosts` are those that the value may be sent to, such as `api.example.org` or `*.example.org:8443`. With `env` they are the
    hosts that the code of the tool may reach; none for code without a network.
    """

    secret: str
    tool: str
    use: SecretUse = msgspec.field(name="as")
    hosts: Annotated[tuple[str, ...], msgspec.Meta(max_length=HOSTS_MAX)] = ()


@operation(
    "secret.grant",
    needs=ADMIN,
    audit="secret.grant",
    http=Http("POST", _GRANTS, names=("GrantRequest", None)),
    raises=(ResourceNotFound,),
)
async def grant(context: Context, request: GrantPut) -> GrantView:
    """Grant a tool access to a secret.

    In a header or the query of its requests to these hosts, or as a variable of its code. Another grant of the same secret to
    the same tool for the same use replaces it.
    """
    context.target = request.secret
    if SECRET_NAME.fullmatch(request.secret) is None:
        raise InvalidInput("A tool can use secrets whose names have letters, digits and _ only")
    if wrong := next((host for host in request.hosts if not is_host_entry(host)), None):
        raise InvalidInput(f"hosts: {shorten(wrong)!r} must be a host or host:port, such as api.example.org, without a scheme")
    if not request.hosts and request.use != "env":
        raise InvalidInput(f"hosts is empty: name the hosts that the {request.use} may be sent to, such as api.example.org")
    if request.secret not in {name for name, _ in await context.tenancy.vault.names(context.tenant_id)}:
        raise not_found("Secret", request.secret)
    tool, grantee = await _grantee(context, request.tool)
    if grantee.startswith(STDIO) and request.use != "env":
        raise InvalidInput("A program gets a secret as a variable: as must be env")
    granted = SecretGrant(
        secret=request.secret,
        tool=tool,
        grantee=grantee,
        use=request.use,
        hosts=tuple(dict.fromkeys(host.lower() for host in request.hosts)),
        granted_by=context.principal.user_id or context.principal.actor,
        granted_at=context.vm.clock(),
    )
    await context.workspace.check_storage(len(msgspec.json.encode(granted)))
    await context.accounts.grants.put(granted)
    return _view(granted)


class GrantRevoke(Request[None]):
    """Without `as` every use of the secret by the tool ends."""

    secret: str
    tool: str
    use: SecretUse | None = msgspec.field(default=None, name="as")


@operation("secret.revoke", needs=ADMIN, audit="secret.revoke", http=Http("DELETE", _GRANTS))
async def revoke(context: Context, request: GrantRevoke) -> None:
    """Revoke a tool's access to a secret, from its next call on."""
    context.target = request.secret
    try:
        tool, grantee = await _grantee(context, request.tool)
    except ResourceNotFound:
        # A tool that was deleted, or is no longer public, is known by the name that it had.
        tool, grantee = str(_tool_uri(request.tool)), ""
    if not await context.accounts.grants.remove(request.secret, tool, grantee or None, request.use):
        raise not_found("Grant", f"{request.secret} to {request.tool} as {request.use}")


async def _grantee(context: Context, text: str) -> tuple[str, str]:
    """Returns the name and the id of a grantee."""
    if text.startswith(STDIO):
        if SERVER_ID.fullmatch(text.removeprefix(STDIO)) is None:
            raise InvalidInput(f"tool: {shorten(text)!r} is not the name of an MCP server, such as stdio:files")
        return text, text
    resource = await context.resources.find(str(_tool_uri(text)))
    owner = None if resource.tenant_id == context.tenant_id else resource.owner
    return str(ResourceUri(type="tools", owner=owner, name=resource.name)), resource.resource_id


def _tool_uri(text: str) -> ResourceUri:
    try:
        uri = parse_uri(text if is_reference(text) else f"resource://tools/{text}")
    except ResourceUriInvalid as error:
        raise InvalidInput(f"tool: {error}") from None
    if uri.type != "tools" or uri.selector is not None or uri.fragment is not None:
        raise InvalidInput("tool must be a tool without a version: a grant is for all versions")
    return uri


def _view(grant: SecretGrant) -> GrantView:
    return record_from(GrantView, grant)
