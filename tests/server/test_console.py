import gzip
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agentvm.server.console import AREAS, HEADERS, NOT_BUILT, PAGES, console_routes, load_files, missing_page
from agentvm.server.exchange import HttpError, HttpRequest, HttpResponse
from agentvm.server.http.reference import source_of
from agentvm.server.router import Router


async def nothing() -> dict[str, Any]:
    return {"type": "http.disconnect"}


async def get(directory: Path, path: str, headers: Mapping[str, str] | None = None, method: str = "GET") -> HttpResponse:
    raw = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    request = HttpRequest({"method": method, "path": path, "headers": raw}, nothing)
    match = Router(console_routes(directory)).match(path)
    request.path_params = match.params
    return await match.route(method).handler(request)


@pytest.fixture
def built(tmp_path: Path) -> Path:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html><style>p{}</style>" + "<p>console</p>" * 100)
    (tmp_path / "assets" / "index-abc.js").write_text("export {};")
    (tmp_path / "icon.svg").write_text("<svg/>")
    (tmp_path / "sw.js").write_text("self")
    (tmp_path / "licenses.txt").write_text("MIT")
    (tmp_path / "secret.env").write_text("not served")
    return tmp_path


@pytest.mark.parametrize("page", [page.replace("{session}", "sess_1").replace("{page:path}", "a/b") for page in PAGES])
async def test_every_page_is_the_same_document_under_a_strict_policy(built: Path, page: str) -> None:
    response = await get(built, page)
    assert (response.status, response.media_type) == (200, "text/html")
    assert b"<p>console</p>" in bytes(response.content)  # type: ignore[arg-type]
    assert response.headers["Cache-Control"] == "no-cache"
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    # The one style in the document is allowed by its digest, and no other.
    assert f"style-src 'self' {source_of('p{}')};" in policy
    assert "frame-ancestors 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy


async def test_files_named_by_their_digest_are_kept_for_ever(built: Path) -> None:
    response = await get(built, "/assets/index-abc.js")
    assert (response.media_type, response.content) == ("text/javascript", b"export {};")
    assert "immutable" in response.headers["Cache-Control"]
    assert response.headers["X-Content-Type-Options"] == HEADERS["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    ("path", "media_type"), [("/icon.svg", "image/svg+xml"), ("/sw.js", "text/javascript"), ("/licenses.txt", "text/plain")]
)
async def test_files_with_a_fixed_name_are_asked_for_anew(built: Path, path: str, media_type: str) -> None:
    response = await get(built, path)
    assert (response.media_type, response.headers["Cache-Control"]) == (media_type, "no-cache")
    assert "trusted-types avm" in response.headers["Content-Security-Policy"]


@pytest.mark.parametrize("path", ["/assets/none.js", "/assets/..%2Findex.html", "/assets/secret.env"])
async def test_nothing_but_the_built_files_is_served(built: Path, path: str) -> None:
    with pytest.raises(HttpError):
        await get(built, path)


async def test_a_page_is_compressed_for_clients_that_take_it_and_sent_once(built: Path) -> None:
    plain = await get(built, "/")
    packed = await get(built, "/", {"accept-encoding": "br, gzip;q=0.8"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(bytes(packed.content)) == plain.content  # type: ignore[arg-type]
    again = await get(built, "/", {"if-none-match": f"W/{plain.headers['ETag']}"})
    assert (again.status, again.content) == (304, b"")
    head = await get(built, "/", method="HEAD")
    assert (head.content, head.headers["Content-Length"]) == (b"", str(len(bytes(plain.content))))


def to_nothing(path: str, accept: str, method: str = "GET") -> HttpRequest:
    return HttpRequest({"method": method, "path": path, "headers": [(b"accept", accept.encode())]}, nothing)


async def test_a_browser_at_an_address_that_nothing_has_is_told_by_the_page(built: Path) -> None:
    browser = "text/html,application/xhtml+xml,*/*;q=0.8"
    page = missing_page(to_nothing("/nowhere/at/all", browser), built)
    assert page is not None
    assert (page.status, page.media_type) == (404, "text/html")
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert missing_page(to_nothing("/nowhere", "application/json"), built) is None
    assert missing_page(to_nothing("/nowhere", browser, "POST"), built) is None
    assert missing_page(to_nothing("/v1/nowhere", browser), built) is None


async def test_a_server_without_a_built_console_says_how_to_build_it(tmp_path: Path) -> None:
    response = await get(tmp_path, "/")
    assert (response.status, response.content) == (200, NOT_BUILT.encode())
    assert load_files(tmp_path) == {}


def test_every_address_of_the_script_is_served() -> None:
    table = "".join(
        path.read_text(encoding="utf-8") for path in (Path(__file__).parents[2] / "console/src/routes").glob("*.ts")
    )
    assert {address.split("/")[1] for address in re.findall(r'path: "([^"]+)"', table)} <= set(AREAS)
