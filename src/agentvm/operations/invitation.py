"""Invitations — links that create users: create, list, revoke, accept."""

from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from agentvm.errors import Conflict, InvalidInput, not_found
from agentvm.model.account import Invitation, UserRole
from agentvm.model.base import Record, record_from
from agentvm.model.ids import InvitationId, UserId
from agentvm.operations.key import KeyView
from agentvm.operations.numbers import check_text
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.operations.pages import Page, PageRequest, page_of
from agentvm.operations.user import NAME_MAX
from agentvm.protocol.requests import Request
from agentvm.tenants.rights import check_may_assign

operation = OperationGroup("invitations")

ADMIN = "tenants:admin"
PAGE = "/invitations/accept"
"""The page of the console that an invited person opens."""
BODY_MAX_BYTES = 4096
LIFE_DAYS_MAX = 90

_ALL, _ONE, _OWN = "/v1/invitations", "/v1/invitations/{invitation_id}", "/v1/auth/invitation"


class InvitationView(Record):
    """An invitation. `link` is the path of the page to send to the invited person, only in the response that created it."""

    invitation_id: InvitationId
    role: UserRole
    external_id: str | None = None
    display_name: str | None = None
    created_by: str
    created_at: int
    expires_at: int
    accepted_at: int | None = None
    revoked_at: int | None = None
    user_id: UserId | None = None
    link: str | None = None


class InvitationCreate(Request[InvitationView]):
    """Without `externalId` the invited person chooses a name."""

    role: UserRole = "member"
    external_id: str | None = None
    display_name: str | None = None
    days: Annotated[int, Meta(ge=1, le=LIFE_DAYS_MAX)] = 7


@operation(
    "invitation.create",
    needs=ADMIN,
    audit="invitation.create",
    grants=True,
    http=Http("POST", _ALL, status=201, names=("NewInvitation", None)),
    raises=(Conflict,),
)
async def create(context: Context, request: InvitationCreate) -> InvitationView:
    """Create an invitation.

    The link creates one user with the role, who gets a key or signs in at the identity provider. It is shown once.
    """
    check_may_assign(context.principal, request.role)
    if request.display_name is not None:
        check_text(request.display_name, "displayName", NAME_MAX)
    if request.external_id is not None:
        check_text(request.external_id, "externalId", NAME_MAX)
        if await context.accounts.users.find(request.external_id) is not None:
            raise Conflict("There is a user of this name already")
    invitation, token = await context.tenancy.access.invitations.add(
        context.tenant_id,
        context.principal.actor,
        role=request.role,
        external_id=request.external_id,
        display_name=request.display_name,
        days=request.days,
    )
    context.target = invitation.invitation_id
    # Behind the #, which browsers send to no server: the link is in no log.
    return record_from(InvitationView, invitation, link=f"{PAGE}#{token.reveal()}")


@operation("invitation.list", needs=ADMIN, http=Http("GET", _ALL))
async def list_all(context: Context, request: PageRequest) -> Page[InvitationView]:
    """List invitations.

    Newest first, including those that were accepted, were revoked or have expired.
    """
    views = [record_from(InvitationView, invitation) for invitation in await context.accounts.invitations.list()]
    return page_of(views, request, (view.invitation_id for view in views))


class InvitationRevoke(Request[None]):
    invitation_id: InvitationId


@operation("invitation.revoke", needs=ADMIN, audit="invitation.revoke", http=Http("DELETE", _ONE))
async def revoke(context: Context, request: InvitationRevoke) -> None:
    """Revoke an invitation. A user it has created stays."""
    if not await context.accounts.invitations.revoke(request.invitation_id, context.vm.clock()):
        raise not_found("Open invitation", request.invitation_id)


class InvitationShown(Record):
    """An invitation as the invited person sees it."""

    tenant: str
    """The name of the tenant."""
    role: UserRole
    external_id: str | None = None
    display_name: str | None = None
    expires_at: int


class InvitationShow(Request[InvitationShown]):
    """`key` is the secret of the link."""

    key: str = ""

    def __repr__(self) -> str:
        return "InvitationShow('***')"


@operation(
    "invitation.show",
    needs=(),
    across=False,
    http=Http("POST", _OWN, max_body_bytes=BODY_MAX_BYTES, caller="invitation"),
)
async def show(context: Context, request: InvitationShow) -> InvitationShown:
    """Show an invitation to the person who has its link."""
    tenant = await context.tenancy.store.directory.get_tenant(context.tenant_id)
    invitation = await _own(context, request.key)
    return record_from(InvitationShown, invitation, tenant="" if tenant is None else tenant.name)


class InvitationAccept(Request[KeyView]):
    """`key` is the secret of the link, `externalId` the name that the person has chosen where the invitation has none."""

    key: str = ""
    external_id: str | None = None

    def __repr__(self) -> str:
        return "InvitationAccept('***')"


@operation(
    "invitation.accept",
    needs=(),
    across=False,
    grants=True,
    audit="invitation.accept",
    http=Http("POST", f"{_OWN}/accept", status=201, max_body_bytes=BODY_MAX_BYTES, caller="invitation"),
    raises=(Conflict,),
)
async def accept(context: Context, request: InvitationAccept) -> KeyView:
    """Accept an invitation.

    Creates the user and their first key, which is shown once.
    """
    invitation, access = await _own(context, request.key), context.tenancy.access
    name = invitation.external_id or request.external_id
    if name is None:
        raise InvalidInput("Choose a name: externalId")
    user = await access.invitations.accept(invitation, check_text(name, "externalId", NAME_MAX))
    context.target = user.user_id
    key, text = await access.issue(
        user.tenant_id,
        name="invitation",
        granter=access.invitations.owner(user),
        created_by=context.principal.actor,
        user_id=user.user_id,
    )
    return replace(record_from(KeyView, key), key=text.reveal())


async def _own(context: Context, token: str) -> Invitation:
    return await context.tenancy.access.invitations.find(token)
