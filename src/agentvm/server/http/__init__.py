"""HTTP — the management API: the routes of all operations, behind one gate; and the documents that describe it."""

import hashlib
from collections.abc import Iterator, Mapping
from functools import cache

import msgspec

from agentvm.operations.http_face import HttpFace
from agentvm.operations.table import OPERATIONS
from agentvm.server.exchange import HttpRequest, HttpResponse
from agentvm.server.http.openapi import Json, document
from agentvm.server.http.reference import HEADERS, addressed, page
from agentvm.server.router import HttpRoute

FACES: tuple[HttpFace, ...] = tuple(HttpFace(row, row.http) for row in OPERATIONS if row.http is not None)
"""Every operation that has a route."""


@cache
def described() -> Json:
    """Returns the OpenAPI document, which is built on first use."""
    return document(FACES)


def documents() -> Iterator[HttpRoute]:
    """Yields the routes of the public documents, which hold no data of tenants."""

    async def openapi_json(request: HttpRequest) -> HttpResponse:
        return _cached(request, _as_json(), "application/json", {})

    async def docs(request: HttpRequest) -> HttpResponse:
        host = request.headers.get("host", "")
        return _cached(request, addressed(_as_page(), request.scope["scheme"], host), "text/html", HEADERS)

    yield HttpRoute("GET", "/openapi.json", openapi_json)
    yield HttpRoute("GET", "/docs", docs)


@cache
def _as_json() -> bytes:
    return msgspec.json.encode(described())


@cache
def _as_page() -> bytes:
    return page(described()).encode()


def _cached(request: HttpRequest, content: bytes, media_type: str, headers: Mapping[str, str]) -> HttpResponse:
    """Returns a response that clients revalidate each time and download once per release."""
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    about = {"ETag": tag, "Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff", **headers}
    etags = [name.strip().removeprefix("W/") for name in request.headers.get("if-none-match", "").split(",")]
    if tag in etags or "*" in etags:
        return HttpResponse(status=304, headers=about)
    return HttpResponse(content=content, media_type=media_type, headers=about)
