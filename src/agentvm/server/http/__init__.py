"""HTTP — the management API: one file per noun, all of them behind one gate; and the documents that tell of it."""

import hashlib
from collections.abc import Mapping
from functools import cache

import msgspec
from litestar import Response, get
from litestar.handlers import HTTPRouteHandler

from agentvm.operations.table import OPERATIONS
from agentvm.server.http import (
    attachments,
    audit,
    carrying,
    config,
    containers,
    erasures,
    errors,
    images,
    keys,
    logs,
    metrics,
    providers,
    quotas,
    resource_bundles,
    resource_resolve,
    resource_versions,
    resources,
    retention,
    secrets,
    tenants,
    turns,
    usage,
    users,
    wallet,
)
from agentvm.server.http.adapter import route_of
from agentvm.server.http.gate import Asked, handler
from agentvm.server.http.openapi import Json, document
from agentvm.server.http.reference import HEADERS, addressed, page
from agentvm.server.http.route import Route

NOUNS = (
    keys,
    tenants,
    users,
    containers,
    erasures,
    quotas,
    usage,
    wallet,
    secrets,
    config,
    audit,
    logs,
    errors,
    providers,
    metrics,
    turns,
    resources,
    resource_resolve,
    resource_versions,
    resource_bundles,
    images,
    attachments,
    retention,
    carrying,
)

ROUTES: tuple[Route, ...] = (
    *(route for noun in NOUNS for route in noun.routes.all),
    *(route_of(operation) for operation in OPERATIONS if operation.http is not None),
)


@cache
def handlers() -> tuple[HTTPRouteHandler, ...]:
    return (*map(handler, ROUTES), *documents())


@cache
def described() -> Json:
    """The document of all routes, made when it is first asked for."""
    return document(ROUTES)


def documents() -> list[HTTPRouteHandler]:
    """Public: they tell of the program, and nothing of a tenant."""

    @get("/openapi.json", sync_to_thread=False)
    def openapi_json(request: Asked) -> Response[bytes]:
        return _cached(request, _as_json(), "application/json", {})

    @get("/docs", sync_to_thread=False)
    def docs(request: Asked) -> Response[bytes]:
        url = request.url
        return _cached(request, addressed(_as_page(), url.scheme, url.netloc), "text/html", HEADERS)

    return [openapi_json, docs]


@cache
def _as_json() -> bytes:
    return msgspec.json.encode(described())


@cache
def _as_page() -> bytes:
    return page(described()).encode()


def _cached(request: Asked, content: bytes, media_type: str, headers: Mapping[str, str]) -> Response[bytes]:
    """The same until the program changes, and then at once another: asked for again each time, sent once."""
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    about = {"ETag": tag, "Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff", **headers}
    known = [name.strip().removeprefix("W/") for name in request.headers.get("if-none-match", "").split(",")]
    if tag in known or "*" in known:
        return Response(b"", status_code=304, media_type=media_type, headers=about)
    return Response(content, media_type=media_type, headers=about)
