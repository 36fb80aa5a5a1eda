"""Users — `/v1/users`: the people of a tenant, and which containers they reach."""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from agentvm.errors import Conflict, NotFound
from agentvm.model.account import AccountStatus, User, UserRole
from agentvm.model.base import Record
from agentvm.model.ids import ContainerId, TenantId, UserId, check_container_id
from agentvm.operations.http_reply import NO_CONTENT
from agentvm.protocol.records import OwnedRecord
from agentvm.server.http.containers import DryRun, counted
from agentvm.server.http.route import Answer, Ask, Given, Nothing, Page, PageGiven, Routes, check_text, paged
from agentvm.tenants.rights import (
    check_covers_role,
    check_may_assign,
    check_reach,
    literal_pattern,
)

routes = Routes()

ADMIN = ("tenants:admin",)
NO_USER = "There is no such user"

_ALL, _ONE = "/v1/users", "/v1/users/{user_id:str}"


class NewUser(Given):
    external_id: str
    display_name: str | None = None
    role: UserRole = "member"


class UserChange(Given):
    """What is absent stays; `null` takes it away."""

    display_name: str | UnsetType | None = UNSET
    role: UserRole | UnsetType = UNSET
    status: AccountStatus | UnsetType = UNSET


class UserView(Record):
    user_id: UserId
    tenant_id: TenantId
    external_id: str
    display_name: str | None = None
    role: UserRole
    status: AccountStatus
    created_at: int
    updated_at: int


class BoundView(Record):
    container_id: ContainerId


@routes.add("POST", _ALL, needs=ADMIN, takes=NewUser, action="user.create", statuses=(201,), raises=(Conflict,), grants=True)
async def create(ask: Ask[NewUser]) -> Answer[UserView]:
    """Make a user."""
    given, now = ask.given, ask.vm.clock()
    user = User(
        user_id=UserId(ask.vm.new_id("usr")),
        tenant_id=ask.tenant_id,
        external_id=check_text(given.external_id, "externalId", 200),
        display_name=_line(given.display_name),
        role=given.role,
        created_at=now,
        updated_at=now,
    )
    ask.target = user.user_id
    check_may_assign(ask.principal, user.role)
    await ask.tenancy.access.add_user(user)
    return Answer(content=_shown(user), status=201)


@routes.add("GET", _ALL, needs=ADMIN, takes=PageGiven)
async def list_all(ask: Ask[PageGiven]) -> Page[UserView]:
    """List users.

    By external id.
    """
    given = ask.given
    found = await ask.accounts.users.list(after=given.after, limit=given.limit + 1)
    return paged([_shown(user) for user in found], given.limit, lambda index: found[index].external_id)


@routes.add("GET", _ONE, needs=ADMIN, takes=Nothing)
async def get(ask: Ask[Nothing]) -> UserView:
    """Show a user."""
    return _shown(await _find(ask))


@routes.add("PUT", _ONE, needs=ADMIN, takes=UserChange, action="user.update", grants=True)
async def update(ask: Ask[UserChange]) -> UserView:
    """Change a user."""
    before = await _find(ask)
    changed = {name: value for name in UserChange.__struct_fields__ if (value := getattr(ask.given, name)) is not UNSET}
    after = replace(before, **changed, updated_at=ask.vm.clock())
    _line(after.display_name)
    if (before.role, before.status) != (after.role, after.status):
        check_covers_role(ask.principal, before.role)
    if before.role != after.role:
        check_may_assign(ask.principal, after.role)
    if not await ask.tenancy.people.update_user(after):
        raise NotFound(NO_USER)
    return _shown(after)


@routes.add("DELETE", _ONE, needs=ADMIN, takes=DryRun, action="user.delete", statuses=(200, 204))
async def delete(ask: Ask[DryRun]) -> Answer[None] | Answer[OwnedRecord]:
    """Delete a user.

    With their keys and limits, and all that is in the containers that no other user is bound to. It cannot be undone. With
    `dryRun` it only counts what would go.
    """
    check_covers_role(ask.principal, (await _find(ask)).role)
    if ask.given.dry_run:
        return counted(ask, await ask.tenancy.store.erasing.weigh(ask.tenant_id, user_id=_id(ask)), NO_USER)
    if not await ask.tenancy.people.delete_user(ask.tenant_id, _id(ask)):
        raise NotFound(NO_USER)
    await ask.tenancy.quotas.reread(ask.tenant_id)
    return NO_CONTENT


@routes.add("GET", f"{_ONE}/containers", needs=ADMIN, takes=Nothing)
async def list_containers(ask: Ask[Nothing]) -> Page[BoundView]:
    """List the containers that a user reaches.

    In the order they were bound; the first is given with the user.
    """
    user = await _find(ask)
    bound = await ask.accounts.users.bound(user.user_id)
    return Page(items=[BoundView(container_id=container_id) for container_id in bound])


@routes.add("PUT", f"{_ONE}/containers/{{container_id:str}}", needs=ADMIN, takes=Nothing, action="user.bind", grants=True)
async def bind(ask: Ask[Nothing]) -> Answer[None]:
    """Let a user reach a container."""
    container_id = check_container_id(ask.path["container_id"])
    # Also themselves: who administers a part of the tenant would else let themselves into the rest.
    check_reach((literal_pattern(container_id),), ask.principal)
    check_covers_role(ask.principal, (await _find(ask)).role)
    if not await ask.tenancy.people.bind(ask.tenant_id, _id(ask), container_id):
        raise NotFound(NO_USER)
    return NO_CONTENT


@routes.add("DELETE", f"{_ONE}/containers/{{container_id:str}}", needs=ADMIN, takes=Nothing, action="user.unbind")
async def unbind(ask: Ask[Nothing]) -> Answer[None]:
    """Keep a user from a container.

    At once: their sockets are closed.
    """
    check_covers_role(ask.principal, (await _find(ask)).role)
    if not await ask.tenancy.people.unbind(ask.tenant_id, _id(ask), ContainerId(ask.path["container_id"])):
        raise NotFound("There is no such user, or they are not bound to this container")
    return NO_CONTENT


def _id(ask: Ask[Any]) -> UserId:
    return UserId(ask.path["user_id"])


async def _find(ask: Ask[Any]) -> User:
    user = await ask.accounts.users.get(_id(ask))
    if user is None:
        raise NotFound(NO_USER)
    return user


def _line(text: str | None) -> str | None:
    return None if text is None else check_text(text, "displayName", 200)


def _shown(user: User) -> UserView:
    return msgspec.convert(user, UserView, from_attributes=True)
