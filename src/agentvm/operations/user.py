"""Users — the users of a tenant, and the containers that each of them may use."""

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from agentvm.errors import Conflict, NotFound, not_found
from agentvm.model.account import AccountStatus, User, UserRole
from agentvm.model.base import Record
from agentvm.model.ids import ContainerId, UserId, check_container_id
from agentvm.operations.erasure import counted
from agentvm.operations.numbers import check_text
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.operations.pages import Page, PageRequest, paged
from agentvm.protocol.records import OwnedRecord
from agentvm.protocol.requests import Request
from agentvm.tenants.rights import check_covers_role, check_may_assign, check_reach, literal_pattern

operation = OperationGroup("users")

ADMIN = "tenants:admin"
NAME_MAX = 200

_ALL, _ONE = "/v1/users", "/v1/users/{user_id}"
_CONTAINERS = f"{_ONE}/containers"
_CONTAINER = f"{_CONTAINERS}/{{container_id}}"


class UserView(User):
    role: UserRole
    status: AccountStatus
    is_last_owner: bool | None = None
    """True for the only owner: before they are suspended, deleted or given another role, another user must be one."""


class UserCreate(Request[UserView]):
    external_id: str
    display_name: str | None = None
    role: UserRole = "member"


@operation(
    "user.create",
    needs=ADMIN,
    audit="user.create",
    grants=True,
    http=Http("POST", _ALL, status=201, names=("NewUser", None)),
    raises=(Conflict,),
)
async def create(context: Context, request: UserCreate) -> UserView:
    """Create a user."""
    now = context.vm.clock()
    user = User(
        user_id=UserId(context.vm.new_id("usr")),
        tenant_id=context.tenant_id,
        external_id=check_text(request.external_id, "externalId", NAME_MAX),
        display_name=_check_display_name(request.display_name),
        role=request.role,
        created_at=now,
        updated_at=now,
    )
    context.target = user.user_id
    check_may_assign(context.principal, user.role)
    await context.tenancy.access.add_user(user)
    return _view(user)


@operation("user.list", needs=ADMIN, http=Http("GET", _ALL))
async def list_all(context: Context, request: PageRequest) -> Page[UserView]:
    """List users by external id."""
    users = await context.accounts.users.list(after=request.cursor, limit=request.limit + 1)
    return paged([_view(user) for user in users], request.limit, lambda index: users[index].external_id)


class UserGet(Request[UserView]):
    user_id: UserId


@operation("user.get", needs=ADMIN, http=Http("GET", _ONE))
async def get(context: Context, request: UserGet) -> UserView:
    """Show a user."""
    user = await _find(context, request.user_id)
    return replace(_view(user), is_last_owner=await context.accounts.users.is_last_owner(user) or None)


class UserUpdate(Request[UserView]):
    """Absent fields stay as they are; `displayName: null` removes the name."""

    user_id: UserId
    display_name: str | UnsetType | None = UNSET
    role: UserRole | UnsetType = UNSET
    status: AccountStatus | UnsetType = UNSET


@operation(
    "user.update",
    needs=ADMIN,
    audit="user.update",
    grants=True,
    http=Http("PUT", _ONE, names=("UserChange", None)),
    raises=(Conflict,),
)
async def update(context: Context, request: UserUpdate) -> UserView:
    """Change a user."""
    changes = {name: value for name, value in msgspec.structs.asdict(request).items() if value is not UNSET}
    now, principal = context.vm.clock(), context.principal

    def modify(before: User) -> User:
        after = replace(before, **changes, updated_at=now)
        _check_display_name(after.display_name)
        if (before.role, before.status) != (after.role, after.status):
            check_covers_role(principal, before.role)
        if before.role != after.role:
            check_may_assign(principal, after.role)
        return after

    changed = await context.tenancy.people.change_user(
        context.tenant_id, request.user_id, modify, keeps_owner=_keeps_owner(context)
    )
    if changed is None:
        raise not_found("User", request.user_id)
    return _view(changed)


class UserDelete(Request[OwnedRecord | None]):
    """With `dryRun` nothing is deleted."""

    user_id: UserId
    dry_run: bool = False


@operation("user.delete", needs=ADMIN, audit="user.delete", http=Http("DELETE", _ONE, statuses=(200, 204)), raises=(Conflict,))
async def delete(context: Context, request: UserDelete) -> OwnedRecord | None:
    """Delete a user.

    Their keys and limits are deleted, and the contents of the containers that no other user is bound to. This cannot be undone.
    With `dryRun` the response counts the data that would be deleted.
    """
    tenant_id, user_id = context.tenant_id, request.user_id

    def check(user: User) -> None:
        check_covers_role(context.principal, user.role)

    if request.dry_run:
        check(await _find(context, user_id))
        return counted(
            context, await context.tenancy.store.erasing.weigh(tenant_id, user_id=user_id), not_found("User", user_id)
        )
    if not await context.tenancy.people.delete_user(tenant_id, user_id, check=check, keeps_owner=_keeps_owner(context)):
        raise not_found("User", user_id)
    await context.tenancy.quotas.reread(tenant_id)
    return None


class BoundView(Record):
    container_id: ContainerId


class UserListContainers(Request[Page[BoundView]]):
    user_id: UserId


@operation("user.list_containers", needs=ADMIN, http=Http("GET", _CONTAINERS))
async def list_containers(context: Context, request: UserListContainers) -> Page[BoundView]:
    """List the containers that a user may use.

    In the order in which they were bound; the first was created with the user.
    """
    user = await _find(context, request.user_id)
    bound = await context.accounts.users.bound(user.user_id)
    return Page(items=[BoundView(container_id=container_id) for container_id in bound])


class UserBind(Request[None]):
    user_id: UserId
    container_id: ContainerId


@operation("user.bind", needs=ADMIN, audit="user.bind", grants=True, http=Http("PUT", _CONTAINER))
async def bind(context: Context, request: UserBind) -> None:
    """Give a user access to a container."""
    container_id = check_container_id(request.container_id)
    # Binding oneself is checked, too: an administrator of some containers could otherwise reach all others.
    check_reach((literal_pattern(container_id),), context.principal)
    check_covers_role(context.principal, (await _find(context, request.user_id)).role)
    if not await context.tenancy.people.bind(context.tenant_id, request.user_id, container_id):
        raise not_found("User", request.user_id)


class UserUnbind(Request[None]):
    user_id: UserId
    container_id: ContainerId


@operation("user.unbind", needs=ADMIN, audit="user.unbind", http=Http("DELETE", _CONTAINER))
async def unbind(context: Context, request: UserUnbind) -> None:
    """Revoke a user's access to a container.

    Takes effect at once: their sockets are closed.
    """
    check_covers_role(context.principal, (await _find(context, request.user_id)).role)
    if not await context.tenancy.people.unbind(context.tenant_id, request.user_id, request.container_id):
        raise NotFound(f"The user {request.user_id} is not bound to the container {request.container_id}")


async def _find(context: Context, user_id: UserId) -> User:
    user = await context.accounts.users.get(user_id)
    if user is None:
        raise not_found("User", user_id)
    return user


def _keeps_owner(context: Context) -> bool:
    """Whether the tenant must keep an owner: only the operator could replace the last one."""
    return not context.principal.may("system:admin")


def _check_display_name(text: str | None) -> str | None:
    return None if text is None else check_text(text, "displayName", NAME_MAX)


def _view(user: User) -> UserView:
    return msgspec.convert(user, UserView, from_attributes=True)
