"""MCP callback — the page that an authorization server sends a user back to.

The browser has no credential of this server. So the page first names the user that the consent is for, and nothing happens
before the person at the browser has confirmed that: a link from another person would otherwise connect this person's account to
the other's. The page loads nothing, runs no script, and can be shown in no frame.
"""

import base64
import hashlib
import urllib.parse
from collections.abc import Awaitable, Iterator
from html import escape
from typing import Final

import msgspec

from agentvm.errors import AgentVMError, InvalidInput, NotFound, shorten
from agentvm.server.errors import status_of
from agentvm.server.exchange import HttpRequest, HttpResponse
from agentvm.server.router import HttpRoute
from agentvm.sessions.consents import Consents
from agentvm.tools.mcp.consent import CALLBACK, CLIENT
from agentvm.vm import AgentVM

BODY_MAX_BYTES: Final = 16 * 1024
_STYLE: Final = "body{font:16px/1.5 system-ui,sans-serif;max-width:34em;margin:4em auto;padding:0 1em}button{font:inherit}"
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
HEADERS: Final = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
}


def callback_routes(vm: AgentVM) -> Iterator[HttpRoute]:
    """The routes of the callback, where GET shows and POST decides, and the document that describes this server."""

    async def show(request: HttpRequest) -> HttpResponse:
        return await _page(_show(_consents(vm), _fields(request.scope["query_string"])))

    async def confirm(request: HttpRequest) -> HttpResponse:
        body = b"".join([piece async for piece in request.stream()])
        return await _page(_finish(_consents(vm), _fields(body)))

    async def describe(request: HttpRequest) -> HttpResponse:
        consents = _consents(vm)
        if (document := consents.servers.client_document) is None:
            raise NotFound(
                "This server has no address by which authorization servers could know it: set system.publicUrl to https://…"
            )
        return HttpResponse(content=msgspec.json.encode(document), headers={"Cache-Control": "max-age=3600"})

    yield HttpRoute("GET", CLIENT, describe)
    yield HttpRoute("GET", CALLBACK, show)
    yield HttpRoute("POST", CALLBACK, confirm, BODY_MAX_BYTES)


async def _page(content: Awaitable[tuple[str, str]]) -> HttpResponse:
    try:
        title, body, status = *await content, 200
    except AgentVMError as error:
        title, body, status = "Not connected", f"<p>{escape(str(error))}.</p>", status_of(error)
    html = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>'
        f"<body><h1>{title}</h1>{body}</body></html>"
    )
    return HttpResponse(content=html.encode(), status=status, media_type="text/html", headers=HEADERS)


async def _show(consents: Consents, fields: dict[str, str]) -> tuple[str, str]:
    if "error" in fields:
        raise InvalidInput(f"The server has not agreed: {shorten(fields['error'])}")
    pending, user = await consents.show(fields.get("state", ""), fields.get("iss"))
    if not fields.get("code"):
        raise InvalidInput("The address of this page is not complete")
    hidden = "".join(
        f'<input type="hidden" name="{name}" value="{escape(fields[name])}">'
        for name in ("state", "code", "iss")
        if name in fields
    )
    host = escape(urllib.parse.urlsplit(pending.server).netloc)
    whom = escape(shorten(user))
    body = (
        f"<p>Agents of <b>{whom}</b> (tenant {escape(pending.tenant_id)}) will act with your account on <b>{host}</b>.</p>"
        f"<p>If you are not {whom}, or have not asked for this, close this page.</p>"
        f'<form method="post" action="{CALLBACK}">{hidden}<button>Connect</button></form>'
    )
    return "Connect to a server", body


async def _finish(consents: Consents, fields: dict[str, str]) -> tuple[str, str]:
    pending = await consents.finish(
        state=fields.get("state", ""), code=fields.get("code", ""), issuer=fields.get("iss"), caller=None
    )
    host = escape(urllib.parse.urlsplit(pending.server).netloc)
    return "Connected", f"<p>{host} is connected. You can close this page; calls that have waited for it continue.</p>"


def _consents(vm: AgentVM) -> Consents:
    if vm.consents is None:
        raise NotFound("Signing in to other servers is not available on this server")
    return vm.consents


def _fields(form: bytes) -> dict[str, str]:
    return dict(urllib.parse.parse_qsl(form.decode("ascii", "replace"), max_num_fields=20))
