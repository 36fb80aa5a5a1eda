"""Browser sessions — sign a browser in with an API key, list the signed-in browsers, sign them out."""

from typing import Final

from agentvm.errors import NotFound, not_found
from agentvm.model.base import Record, record_from
from agentvm.model.ids import BrowserSessionId, KeyId
from agentvm.model.secret import Secret
from agentvm.operations.http_reply import HttpReply
from agentvm.operations.operation import Context, Empty, Http, OperationGroup
from agentvm.operations.pages import Page, PageRequest, page_of
from agentvm.protocol.requests import Request

operation = OperationGroup("browsers")

COOKIE: Final = "avm_session"
COOKIE_SECONDS: Final = 400 * 24 * 3600
"""The longest that browsers keep a cookie. The server ends a session that is not used long before."""
BODY_MAX_BYTES: Final = 4096
SIGNED_OUT: Final = f"{COOKIE}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0"

_OWN, _ALL, _ONE = "/v1/auth/session", "/v1/auth/sessions", "/v1/auth/sessions/{browser_session_id}"


class BrowserSessionView(Record):
    """A signed-in browser. `current` is the one that asks."""

    browser_session_id: BrowserSessionId
    key_id: KeyId
    user_agent: str
    created_at: int
    last_used_at: int
    current: bool = False


class BrowserSignIn(Request[HttpReply[BrowserSessionView]]):
    """`key` is the API key, unless it is in the `Authorization` header. With `keep` the browser stays signed in when it is
    closed."""

    key: str | None = None
    keep: bool = False

    def __repr__(self) -> str:
        return "BrowserSignIn('***')"


@operation(
    "auth.sign_in",
    needs=(),
    across=False,
    grants=True,
    audit="auth.sign_in",
    http=Http(
        "POST", _OWN, status=201, names=("SignIn", None), max_body_bytes=BODY_MAX_BYTES, caller="key", id="browsers_sign_in"
    ),
)
async def sign_in(context: Context, request: BrowserSignIn) -> HttpReply[BrowserSessionView]:
    """Sign a browser in with an API key.

    The response sets a cookie, which stands for the key until it is revoked or expires, or the browser is signed out or not
    used for 14 days. A request with the cookie that writes must come from a page of this server.
    """
    session, cookie = await context.tenancy.access.sign_in(context.principal, context.http.user_agent)
    context.target = session.browser_session_id
    view = record_from(BrowserSessionView, session, current=True)
    header = cookie_of(cookie, keep=request.keep, is_secure=context.http.is_secure)
    return HttpReply(content=view, status=201, headers={"Set-Cookie": header})


def cookie_of(cookie: Secret, *, keep: bool, is_secure: bool) -> str:
    """Returns the header that gives a browser the cookie of its session."""
    parts = [f"{COOKIE}={cookie.reveal()}", "HttpOnly", "SameSite=Strict", "Path=/"]
    if keep:
        parts.append(f"Max-Age={COOKIE_SECONDS}")
    if is_secure:
        parts.append("Secure")
    return "; ".join(parts)


@operation(
    "auth.sign_out",
    needs=(),
    across=False,
    audit="auth.sign_out",
    http=Http("DELETE", _OWN, id="browsers_sign_out"),
    raises=(NotFound,),
)
async def sign_out(context: Context, request: Empty) -> HttpReply[None]:
    """Sign out this browser."""
    session_id = context.principal.browser_session_id
    if session_id is None:
        raise NotFound("This request has no browser session; a key is revoked with DELETE /v1/auth/keys/{key_id}")
    context.target = session_id
    await context.tenancy.access.sign_out(context.principal, session_id)
    return HttpReply(content=None, status=204, headers={"Set-Cookie": SIGNED_OUT})


class BrowserSessionList(PageRequest):
    """A page of the signed-in browsers."""


@operation("auth.sessions", needs=(), across=False, http=Http("GET", _ALL, id="browsers_list"))
async def list_own(context: Context, request: BrowserSessionList) -> Page[BrowserSessionView]:
    """List your signed-in browsers, the last used first."""
    own = context.principal.browser_session_id
    views = [
        record_from(BrowserSessionView, session, current=session.browser_session_id == own)
        for session in await context.tenancy.access.browser_sessions.list(context.principal)
    ]
    return page_of(views, request, (view.browser_session_id for view in views))


class BrowserSessionEnd(Request[None]):
    browser_session_id: BrowserSessionId


@operation("auth.session_end", needs=(), across=False, audit="auth.session_end", http=Http("DELETE", _ONE, id="browsers_end"))
async def end(context: Context, request: BrowserSessionEnd) -> None:
    """Sign out one of your browsers. Its sockets are closed at once."""
    if not await context.tenancy.access.sign_out(context.principal, request.browser_session_id):
        raise not_found("Browser session", request.browser_session_id)
