"""A fake server — answers over real HTTP what a test wants, also what the real one never would."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

POLL_SECONDS = 0.01
"""How often a server looks whether it shall end; every test waits for that."""


class Asked(NamedTuple):
    method: str
    path: str
    key: str | None
    body: str


Answering = Callable[[Asked], tuple[int, object]]


@contextmanager
def answering(answer: Answering) -> Iterator[tuple[str, list[Asked]]]:
    """Its URL, and what it was asked. A string and bytes are sent as they are, anything else as JSON."""
    asked: list[Asked] = []

    class Fake(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            asked.append(Asked(self.command, self.path, self.headers.get("Authorization"), body))
            status, content = answer(asked[-1])
            data = content if isinstance(content, bytes) else _text(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_DELETE = _answer

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Fake)
    thread = threading.Thread(target=server.serve_forever, args=(POLL_SECONDS,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _text(content: object) -> str:
    return content if isinstance(content, str) else json.dumps(content)


def refusing(status: int, code: str, message: str, **details: object) -> Answering:
    error = {"code": code, "message": message, "details": details, "requestId": "req_1"}
    return lambda asked: (status, {"error": error})
