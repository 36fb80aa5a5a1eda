"""API keys — create, list, rotate and revoke keys; and the identity that a key stands for."""

import msgspec

from agentvm.errors import Conflict, not_found
from agentvm.model.account import ApiKey
from agentvm.model.base import Record, record_from
from agentvm.model.ids import KeyId, TenantId, UserId
from agentvm.model.principal import PERMISSIONS
from agentvm.model.secret import Secret
from agentvm.operations.numbers import Amount
from agentvm.operations.operation import Context, Empty, Http, OperationGroup
from agentvm.operations.pages import Page, PageRequest, page_of
from agentvm.protocol.requests import Request
from agentvm.tenants.rights import check_role_cap
from agentvm.tenants.tickets import TICKET_AGE_MS

operation = OperationGroup("keys")

ADMIN = "keys:admin"

_ALL, _ONE = "/v1/auth/keys", "/v1/auth/keys/{key_id}"


class KeyView(Record):
    """A key as it is shown. `key` is the key itself, only in the response that created it."""

    key_id: KeyId
    tenant_id: TenantId
    name: str
    user_id: UserId | None = None
    permissions: tuple[str, ...]
    containers: tuple[str, ...] | None = None
    expires_at: int | None = None
    created_by: str
    created_at: int
    last_used_at: int | None = None
    revoked_at: int | None = None
    key: str | None = None


class KeyCreate(Request[KeyView]):
    """Without `permissions` the key has those of the user's role, or of a member if it has no user."""

    name: str
    user_id: UserId | None = None
    permissions: tuple[str, ...] | None = None
    containers: tuple[str, ...] | None = None
    expires_at: Amount | None = None


@operation(
    "key.create", needs=ADMIN, audit="key.create", grants=True, http=Http("POST", _ALL, status=201, names=("NewKey", None))
)
async def create(context: Context, request: KeyCreate) -> KeyView:
    """Create a key."""
    user = None if request.user_id is None else await context.accounts.users.get(request.user_id)
    if user is not None and request.permissions is not None:
        check_role_cap(request.permissions, user)
    key, text = await context.tenancy.access.issue(
        context.tenant_id, granter=context.principal, **msgspec.structs.asdict(request)
    )
    context.target = key.key_id
    return _view(key, text)


class KeyList(PageRequest):
    """`userId` narrows the list to the keys of one user."""

    user_id: UserId | None = None


@operation("key.list", needs=ADMIN, own=True, http=Http("GET", _ALL))
async def list_all(context: Context, request: KeyList) -> Page[KeyView]:
    """List keys.

    Newest first, including revoked keys.
    """
    principal, access = context.principal, context.tenancy.access
    user_id = request.user_id if principal.may(ADMIN) else principal.user_id
    keys = [key for key in await context.accounts.keys.list(user_id=user_id) if await access.sees(principal, key)]
    return page_of([_view(key) for key in keys], request, (key.key_id for key in keys))


class KeyGet(Request[KeyView]):
    key_id: KeyId


@operation("key.get", needs=ADMIN, own=True, http=Http("GET", _ONE))
async def get(context: Context, request: KeyGet) -> KeyView:
    """Show a key."""
    return _view(await _find(context, request.key_id))


class KeyRevoke(Request[None]):
    key_id: KeyId


@operation("key.revoke", needs=ADMIN, own=True, audit="key.revoke", http=Http("DELETE", _ONE), raises=(Conflict,))
async def revoke(context: Context, request: KeyRevoke) -> None:
    """Revoke a key."""
    key = await _find(context, request.key_id)
    if context.principal.browser_session_id is not None and key.key_id == context.principal.key_id:
        raise Conflict("This browser is signed in with this key; sign out, or rotate the key")
    await context.tenancy.access.check_may_revoke(context.principal, key)
    await context.tenancy.access.revoke(context.tenant_id, key.key_id)


class KeyRotate(Request[KeyView]):
    """The old key stays valid for `graceSeconds`."""

    key_id: KeyId
    grace_seconds: Amount = 0


@operation(
    "key.rotate",
    needs=ADMIN,
    own=True,
    audit="key.rotate",
    grants=True,
    http=Http("POST", f"{_ONE}/rotate", status=201, names=("Rotation", None)),
)
async def rotate(context: Context, request: KeyRotate) -> KeyView:
    """Replace a key by a new one with the same rights."""
    key = await _find(context, request.key_id)
    rotated, text = await context.tenancy.access.rotate(
        context.tenant_id, key.key_id, request.grace_seconds, granter=context.principal
    )
    return _view(rotated, text)


class Whoami(Record):
    """The identity of a caller. `containers` is absent for a key that reaches all containers of its tenant."""

    tenant_id: TenantId
    tenant: str | None = None
    """The slug."""
    user_id: UserId | None = None
    user: str | None = None
    """The external id."""
    role: str | None = None
    """The role that the key acts with: at most the user's own, and less for a key from before a promotion."""
    key_id: KeyId | None = None
    permissions: tuple[str, ...]
    containers: tuple[str, ...] | None = None
    expires_at: int | None = None
    auth: str


@operation("auth.whoami", needs=(), across=False, http=Http("GET", "/v1/auth/whoami"))
async def whoami(context: Context, request: Empty) -> Whoami:
    """Show which identity and permissions your key has."""
    principal = context.principal
    tenant = await context.tenancy.store.directory.get_tenant(principal.tenant_id)
    user = None if principal.user_id is None else await context.accounts.users.get(principal.user_id)
    return record_from(
        Whoami,
        principal,
        tenant=None if tenant is None else tenant.slug,
        user=None if user is None else user.external_id,
        permissions=tuple(name for name in PERMISSIONS if principal.may(name)),
        auth="on" if context.vm.config.authenticates else "off",
    )


class SocketToken(Record):
    token: str
    expires_at: int


@operation("auth.ws_token", needs=(), across=False, http=Http("POST", "/v1/auth/ws-token", status=201))
async def ws_token(context: Context, request: Empty) -> SocketToken:
    """Create a token for one WebSocket.

    It opens one WebSocket within a minute, so it may appear in a URL: it is useless to a later reader.
    """
    token = await context.tenancy.access.ws_token(context.principal)
    return SocketToken(token=token, expires_at=context.vm.clock() + TICKET_AGE_MS)


async def _find(context: Context, key_id: KeyId) -> ApiKey:
    key = await context.accounts.keys.get(key_id)
    if key is None or not await context.tenancy.access.sees(context.principal, key):
        raise not_found("Key", key_id)
    return key


def _view(key: ApiKey, text: Secret | None = None) -> KeyView:
    view = msgspec.convert(key, KeyView, from_attributes=True)
    return view if text is None else msgspec.structs.replace(view, key=text.reveal())
