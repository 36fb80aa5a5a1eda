"""OIDC — a browser signs in at the operator's identity provider."""

import urllib.parse
from typing import TYPE_CHECKING

from agentvm.errors import NotFound, ToolFailed
from agentvm.model.base import Record
from agentvm.operations.browser_session import cookie_of
from agentvm.operations.http_reply import HttpReply
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.protocol.requests import Request

if TYPE_CHECKING:
    from agentvm.tenants.oidc_flow import OidcFlow

operation = OperationGroup("browsers")

COOKIE = "avm_oidc"
PATH = "/v1/auth/oidc"
BODY_MAX_BYTES = 8192
SIGN_IN_SECONDS = 600
_FIELD_MAX = 4096


class OidcAddress(Record):
    """The address at the identity provider to go to."""

    location: str


class OidcStart(Request[HttpReply[OidcAddress]]):
    """`next` is the page of this server to come back to. With `invitation`, the secret of a link, the account at the provider
    becomes the invited user's."""

    next: str = "/"
    keep: bool = False
    invitation: str | None = None

    def __repr__(self) -> str:
        return "OidcStart('***')"


@operation(
    "auth.oidc_start",
    needs=(),
    across=False,
    grants=True,
    http=Http("POST", f"{PATH}/start", max_body_bytes=BODY_MAX_BYTES, caller="nobody", id="browsers_oidc_start"),
    raises=(NotFound, ToolFailed),
)
async def oidc_start(context: Context, request: OidcStart) -> HttpReply[OidcAddress]:
    """Start the sign-in at the identity provider.

    The response sets a cookie, which the callback requires, and contains the address of the provider. Both are valid for ten
    minutes.
    """
    flow = _flow(context)
    origin = (context.vm.config.system.public_url or context.http.origin).rstrip("/")
    location, cookie = await flow.start(origin, next_page=request.next, keep=request.keep, invitation=request.invitation)
    # Lax: the provider's page leads back here, and a strict cookie would not come along.
    parts = [f"{COOKIE}={cookie.reveal()}", "HttpOnly", "SameSite=Lax", f"Path={PATH}", f"Max-Age={SIGN_IN_SECONDS}"]
    if context.http.is_secure:
        parts.append("Secure")
    return HttpReply(content=OidcAddress(location=location), headers={"Set-Cookie": "; ".join(parts)})


class OidcCallback(Request[HttpReply[None]]):
    """The fields that the identity provider adds to the address; others are ignored."""

    state: str = ""
    code: str = ""
    iss: str | None = None
    error: str | None = None
    error_description: str | None = None
    session_state: str | None = None
    scope: str | None = None
    authuser: str | None = None
    prompt: str | None = None
    hd: str | None = None


@operation(
    "auth.oidc_callback",
    needs=(),
    across=False,
    audit="auth.sign_in",
    http=Http(
        "GET",
        f"{PATH}/callback",
        statuses=(303,),
        caller="nobody",
        id="browsers_oidc_callback",
        rename={"error_description": "error_description", "session_state": "session_state"},
    ),
    raises=(NotFound,),
)
async def oidc_callback(context: Context, request: OidcCallback) -> HttpReply[None]:
    """Finish the sign-in after the identity provider.

    Redirects to the page where the sign-in started, with the cookie of a browser session; or to `/login?problem=` with the
    reason. A state can be used once.
    """
    fields = {"state": request.state, "code": request.code, "iss": request.iss, "error": request.error}
    parameters = {name: value for name, value in fields.items() if value is not None and len(value) <= _FIELD_MAX}
    signed_in = await _flow(context).finish(context.http.flow_cookie, parameters)
    if isinstance(signed_in, str):
        context.is_dry_run = True
        query = urllib.parse.urlencode({"problem": signed_in})
        return HttpReply(content=None, status=303, headers={"Location": f"/login?{query}", "Set-Cookie": _ended()})
    context.workspace = context.vm.workspace(signed_in.principal)
    session, cookie = await context.tenancy.access.sign_in(signed_in.principal, context.http.user_agent)
    context.target = session.browser_session_id
    headers = {
        "Location": signed_in.next,
        "Set-Cookie": cookie_of(cookie, keep=signed_in.keep, is_secure=context.http.is_secure),
    }
    return HttpReply(content=None, status=303, headers=headers)


def _flow(context: Context) -> "OidcFlow":
    if context.tenancy.oidc is None:
        raise NotFound("This server has no identity provider; see the setting system.oidc.clientId")
    return context.tenancy.oidc


def _ended() -> str:
    return f"{COOKIE}=; HttpOnly; SameSite=Lax; Path={PATH}; Max-Age=0"
