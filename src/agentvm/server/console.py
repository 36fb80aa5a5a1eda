"""Console — serves the pages of the web console, which are built from `console/` into `_console/` beside this file.

Every page is the same document: its script shows the page that the address names. Nothing here needs a key; the pages use the
same API as every other client, and have no rights of their own.
"""

import gzip
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from agentvm.server.exchange import HttpError, HttpRequest, HttpResponse
from agentvm.server.http.reference import source_of
from agentvm.server.router import HttpRoute

DIRECTORY: Final = Path(__file__).parent / "_console"
AREAS: Final = (
    *("agents", "resources", "knowledge", "skills", "files", "activity", "usage", "wallet"),
    *("tenants", "people", "settings", "me", "diagnose", "login", "invitations", "shared"),
)
"""The first words of addresses outside the conversations. The script knows the rest, and says that a page does not exist."""
PAGES: Final = (
    "/",
    "/c/{session}",
    "/search",
    "/archive",
    *(f"/{area}{rest}" for area in AREAS for rest in ("", "/{page:path}")),
)
"""Addresses that the script knows."""
ASSETS: Final = "/assets/{file}"
ICON: Final = "/icon.svg"
WORKER: Final = "/sw.js"
LICENSES: Final = "/licenses.txt"
NAMED: Final = (ICON, WORKER, LICENSES)
PUBLIC_PATHS: Final = (*PAGES, ASSETS, *NAMED)
_API_PATHS: Final = ("/v1/", "/assets/", "/hooks/", "/.well-known/")

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src {styles}; img-src 'self' blob:; font-src 'self'; connect-src 'self'; "
    "worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types avm"
)
HEADERS: Final = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_STYLE: Final = re.compile("<style>(.*?)</style>", re.DOTALL)
_TYPES: Final = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}
_REVALIDATED: Final = "no-cache"
_IMMUTABLE: Final = "public, max-age=31536000, immutable"
"""For files whose names hold the digest of their content."""

NOT_BUILT: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>AgentVM</title></head><body>
<h1>AgentVM is running</h1>
<p>The web console is not built. In a checkout, run <code>make console</code> and load this page again;
installed packages contain it.</p>
<p>Without it: <code>avm chat</code> in a terminal, or the <a href="/docs">HTTP API</a>.</p>
</body></html>
"""


@dataclass(frozen=True, slots=True)
class ConsoleFile:
    """A file of the console, and its compressed form."""

    content: bytes
    compressed: bytes
    media_type: str
    tag: str
    policy: str
    """The Content-Security-Policy: files of this server, and the styles that the file itself holds."""

    @classmethod
    def read(cls, path: Path) -> "ConsoleFile":
        return cls.of(path.read_bytes(), _TYPES[path.suffix])

    @classmethod
    def of(cls, content: bytes, media_type: str) -> "ConsoleFile":
        tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
        own = _STYLE.findall(content.decode()) if media_type == "text/html" else []
        policy = _POLICY.format(styles=" ".join(("'self'", *map(source_of, own))))
        return cls(content, gzip.compress(content, 9, mtime=0), media_type, tag, policy)


@cache
def load_files(directory: Path = DIRECTORY) -> Mapping[str, ConsoleFile]:
    """Returns the built files by their path below the directory; empty if the console is not built."""
    paths = (path for path in directory.rglob("*") if path.suffix in _TYPES)
    return {path.relative_to(directory).as_posix(): ConsoleFile.read(path) for path in paths}


def missing_page(request: HttpRequest, directory: Path = DIRECTORY) -> HttpResponse | None:
    """Returns the document for an address that nothing has, so that the script says so; None for a program, or an API path."""
    is_page = request.method in {"GET", "HEAD"} and "text/html" in request.headers.get("accept", "")
    built = load_files(directory).get("index.html")
    if built is None or not is_page or str(request.scope["path"]).startswith(_API_PATHS):
        return None
    return _response(request, built, _REVALIDATED, status=404)


def console_routes(directory: Path = DIRECTORY) -> Iterator[HttpRoute]:
    """Yields the routes of the console. The files are read with the first request."""

    async def page(request: HttpRequest) -> HttpResponse:
        built = load_files(directory).get("index.html")
        if built is None:
            return _response(request, ConsoleFile.of(NOT_BUILT.encode(), "text/html"), _REVALIDATED)
        return _response(request, built, _REVALIDATED)

    async def asset(request: HttpRequest) -> HttpResponse:
        file = load_files(directory).get(f"assets/{request.path_params['file']}")
        if file is None:
            raise HttpError(404)
        return _response(request, file, _IMMUTABLE)

    async def named(request: HttpRequest) -> HttpResponse:
        file = load_files(directory).get(request.scope["path"][1:])
        if file is None:
            raise HttpError(404)
        return _response(request, file, _REVALIDATED)

    for method in ("GET", "HEAD"):
        for path in PAGES:
            yield HttpRoute(method, path, page)
        yield HttpRoute(method, ASSETS, asset)
        for path in NAMED:
            yield HttpRoute(method, path, named)


def _response(request: HttpRequest, file: ConsoleFile, caching: str, *, status: int = 200) -> HttpResponse:
    headers = {
        **HEADERS,
        "Content-Security-Policy": file.policy,
        "ETag": file.tag,
        "Cache-Control": caching,
        "Vary": "Accept-Encoding",
    }
    etags = [name.strip().removeprefix("W/") for name in request.headers.get("if-none-match", "").split(",")]
    if file.tag in etags and status == 200:
        return HttpResponse(status=304, headers=headers)
    accepted = [name.split(";")[0].strip() for name in request.headers.get("accept-encoding", "").split(",")]
    content = file.content
    if "gzip" in accepted:
        content, headers["Content-Encoding"] = file.compressed, "gzip"
    if request.method == "HEAD":
        headers["Content-Length"], content = str(len(content)), b""
    return HttpResponse(content=content, status=status, media_type=file.media_type, headers=headers)
