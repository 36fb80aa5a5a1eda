"""A package index on this machine: a web server with the pages and wheels that a test has written."""

import base64
import hashlib
import io
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


class PackageIndex:
    """The index while it is served."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/simple"
        self.host = f"127.0.0.1:{port}"
        self.wheels: dict[str, bytes] = {}
        self.asked: list[str] = []

    def add(self, name: str, version: str, modules: Mapping[str, str], requires: str | None = None) -> str:
        """Writes a wheel; returns its hash."""
        data = wheel(name, version, modules, requires)
        self.wheels[f"{name}-{version}-py3-none-any.whl"] = data
        return hashlib.sha256(data).hexdigest()

    def page(self, path: str) -> bytes | None:
        self.asked.append(path)
        *_, kind, name = path.strip("/").split("/")
        if kind == "files":
            return self.wheels.get(name)
        files = [file for file in self.wheels if file.startswith(f"{name}-")]
        links = "".join(
            f'<a href="/files/{file}#sha256={hashlib.sha256(self.wheels[file]).hexdigest()}">{file}</a>' for file in files
        )
        return f"<!DOCTYPE html><html><body>{links}</body></html>".encode() if files else None


def wheel(name: str, version: str, modules: Mapping[str, str], requires: str | None) -> bytes:
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + (
        f"Requires-Dist: {requires}\n" if requires else ""
    )
    files = {f"{path}": text for path, text in modules.items()} | {
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = [f"{path},sha256={_digest(text)},{len(text.encode())}" for path, text in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""])
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, text in files.items():
            archive.writestr(zipfile.ZipInfo(path), text)
    return buffer.getvalue()


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


@contextmanager
def serve_index() -> Iterator[PackageIndex]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = index.page(self.path)
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Type", "text/html" if self.path.endswith("/") else "application/octet-stream")
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    index = PackageIndex(server.server_port)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield index
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
