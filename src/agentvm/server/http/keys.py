"""Keys — `/v1/auth`: making, renewing and ending API keys, and who one is."""

from typing import Any

from msgspec.structs import replace

from agentvm.errors import Conflict, NotFound
from agentvm.model.account import ApiKey
from agentvm.model.base import Record
from agentvm.model.ids import KeyId, TenantId, UserId
from agentvm.model.principal import PERMISSIONS, Principal
from agentvm.model.secret import Secret
from agentvm.operations.http_reply import NO_CONTENT
from agentvm.server.http.route import Amount, Answer, Ask, Given, Nothing, Page, PageGiven, Routes, page_of
from agentvm.tenants.rights import check_permissions, check_role_cap
from agentvm.tenants.tickets import TICKET_AGE_MS

routes = Routes()

NO_KEY = "There is no such key"
ADMIN = "keys:admin"

_ALL, _ONE = "/v1/auth/keys", "/v1/auth/keys/{key_id:str}"


class NewKey(Given):
    name: str
    user_id: UserId | None = None
    permissions: tuple[str, ...] | None = None
    """None: what the user's role may, and what a member may if it is nobody's."""
    containers: tuple[str, ...] | None = None
    expires_at: Amount | None = None


class Rotation(Given):
    grace_seconds: int = 0


class KeysGiven(PageGiven):
    user_id: UserId | None = None


class KeyView(Record):
    """A key as it is shown. `key` is the key itself, only in the answer that made it."""

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


class Whoami(Record):
    """`containers` is absent for who reaches all of their tenant."""

    tenant_id: TenantId
    tenant: str | None = None
    """The slug."""
    user_id: UserId | None = None
    user: str | None = None
    """The tenant's own name for them."""
    role: str | None = None
    """That they act with: at most their own, and less with a key from before they were promoted."""
    key_id: KeyId | None = None
    permissions: tuple[str, ...]
    containers: tuple[str, ...] | None = None
    expires_at: int | None = None
    auth: str


class SocketToken(Record):
    token: str
    expires_at: int


@routes.add("POST", _ALL, needs=(ADMIN,), takes=NewKey, action="key.create", statuses=(201,), grants=True)
async def create(ask: Ask[NewKey]) -> Answer[KeyView]:
    """Make a key."""
    given = ask.given
    user = None if given.user_id is None else await ask.accounts.users.get(given.user_id)
    if user is not None and given.permissions is not None:
        check_role_cap(given.permissions, user)
    key, text = await ask.tenancy.access.issue(
        ask.tenant_id,
        name=given.name,
        granter=ask.principal,
        user_id=given.user_id,
        permissions=given.permissions,
        containers=given.containers,
        expires_at=given.expires_at,
    )
    ask.target = key.key_id
    return Answer(content=_shown(key, text), status=201)


@routes.add("GET", _ALL, needs=(ADMIN,), own=True, takes=KeysGiven)
async def list_all(ask: Ask[KeysGiven]) -> Page[KeyView]:
    """List keys.

    Newest first, revoked ones too.
    """
    of_user = ask.given.user_id if ask.principal.may(ADMIN) else ask.principal.user_id
    found = [key for key in await ask.accounts.keys.list(user_id=of_user) if await _sees(ask, key)]
    return page_of([_shown(key) for key in found], ask.given, (key.key_id for key in found))


@routes.add("GET", _ONE, needs=(ADMIN,), own=True, takes=Nothing)
async def get(ask: Ask[Nothing]) -> KeyView:
    """Show a key."""
    return _shown(await _find(ask))


@routes.add("DELETE", _ONE, needs=(ADMIN,), own=True, takes=Nothing, action="key.revoke", raises=(Conflict,))
async def revoke(ask: Ask[Nothing]) -> Answer[None]:
    """End a key."""
    key = await _find(ask)
    if not _owns(ask.principal, key):
        # Who could end the operator's keys would need no permission to lock the operator out.
        check_permissions(key.permissions, ask.principal)
        await ask.tenancy.access.check_manages(ask.principal, key)
    await ask.tenancy.access.revoke(ask.tenant_id, key.key_id)
    return NO_CONTENT


@routes.add(
    "POST", f"{_ONE}/rotate", needs=(ADMIN,), own=True, takes=Rotation, action="key.rotate", statuses=(201,), grants=True
)
async def rotate(ask: Ask[Rotation]) -> Answer[KeyView]:
    """Replace a key by a new one with the same rights."""
    key = await _find(ask)
    granter = ask.principal
    if key.key_id == granter.key_id:
        # Who holds the key has it already, also what their role does not let them use of it.
        granter = replace(granter, permissions=granter.permissions | set(key.permissions))
    made, text = await ask.tenancy.access.rotate(ask.tenant_id, key.key_id, ask.given.grace_seconds, granter=granter)
    return Answer(content=_shown(made, text), status=201)


@routes.add("GET", "/v1/auth/whoami", needs=(), takes=Nothing, across=False)
async def whoami(ask: Ask[Nothing]) -> Whoami:
    """Tell who is asking."""
    one = ask.principal
    tenant = await ask.tenancy.store.directory.get_tenant(one.tenant_id)
    user = None if one.user_id is None else await ask.accounts.users.get(one.user_id)
    return Whoami(
        tenant_id=one.tenant_id,
        tenant=None if tenant is None else tenant.slug,
        user_id=one.user_id,
        user=None if user is None else user.external_id,
        role=one.role,
        key_id=one.key_id,
        permissions=tuple(name for name in PERMISSIONS if one.may(name)),
        containers=one.containers,
        expires_at=one.expires_at,
        auth="on" if ask.vm.config.authenticates else "off",
    )


@routes.add("POST", "/v1/auth/ws-token", needs=(), takes=Nothing, across=False, statuses=(201,))
async def ws_token(ask: Ask[Nothing]) -> Answer[SocketToken]:
    """Make a token for one WebSocket.

    For one WebSocket within a minute: it may be seen in a URL, and is then of no use.
    """
    token = ask.tenancy.access.ws_token(ask.principal)
    return Answer(content=SocketToken(token=token, expires_at=ask.vm.clock() + TICKET_AGE_MS), status=201)


async def _find(ask: Ask[Nothing] | Ask[Rotation]) -> ApiKey:
    key = await ask.accounts.keys.get(KeyId(ask.path["key_id"]))
    if key is None or not await _sees(ask, key):
        raise NotFound(NO_KEY)
    return key


async def _sees(ask: Ask[Any], key: ApiKey) -> bool:
    """Who administers no keys sees only their own; who reaches some containers, those that reach no others."""
    if _owns(ask.principal, key):
        return True
    return ask.principal.may(ADMIN) and await ask.tenancy.access.covers(ask.principal, key)


def _owns(one: Principal, key: ApiKey) -> bool:
    return one.user_id is not None and (key.tenant_id, key.user_id) == (one.tenant_id, one.user_id)


def _shown(key: ApiKey, text: Secret | None = None) -> KeyView:
    return KeyView(
        key_id=key.key_id,
        tenant_id=key.tenant_id,
        name=key.name,
        user_id=key.user_id,
        permissions=key.permissions,
        containers=key.containers,
        expires_at=key.expires_at,
        created_by=key.created_by,
        created_at=key.created_at,
        last_used_at=key.last_used_at,
        revoked_at=key.revoked_at,
        key=None if text is None else text.reveal(),
    )
