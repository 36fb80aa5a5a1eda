"""Fixtures — the pages of the examples, served."""

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from tests.examples.scripts import CLIENT, ROOT


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[str]:
    """The address of the pages on loopback, as `python -m http.server` serves it."""
    if not CLIENT.exists():
        pytest.skip("client: it is not built; make console")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(ROOT))) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/examples/browser"
        server.shutdown()
        thread.join()
