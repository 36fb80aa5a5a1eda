"""Peer noise — limits the log entries that peers cause in uvicorn to a few a minute.

Invalid UTF-8, broken requests and the like are a peer's fault, and a peer can send them as fast as the network allows: entries
with traces would fill the disk of the log. Each kind is logged a few times a minute, then only counted.
"""

import logging
import time
from collections.abc import Callable

WINDOW_ENTRIES_MAX = 5
"""Entries of one kind in `WINDOW_SECONDS`."""
WINDOW_SECONDS = 60.0
KINDS_MAX = 100

_PEERS_FAULT = ("Invalid UTF-8", "Invalid HTTP request", "Unsupported upgrade request", "No supported WebSocket library")


class PeerNoise(logging.Filter):
    """A filter for the logger of uvicorn. A kind is the text before its arguments are filled in."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        self._kinds: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind, now = str(record.msg)[:200], self._now()
        begun, count = self._kinds.get(kind, (now, 0))
        hidden = 0
        if now - begun >= WINDOW_SECONDS:
            hidden, begun, count = max(0, count - WINDOW_ENTRIES_MAX), now, 0
        if kind not in self._kinds and len(self._kinds) >= KINDS_MAX:
            self._kinds.clear()
        self._kinds[kind] = (begun, count + 1)
        if count >= WINDOW_ENTRIES_MAX:
            return False
        if kind.startswith(_PEERS_FAULT):
            # The trace shows this server's own code, where nothing is wrong.
            record.exc_info, record.exc_text = None, None
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        if hidden:
            record.msg, record.args = f"{record.getMessage().strip()} ({hidden} more like this were not logged)", ()
        return True


def hush(name: str = "uvicorn.error") -> None:
    """Installs the filter once for the process: all its servers share the logger."""
    logger = logging.getLogger(name)
    if not any(isinstance(installed, PeerNoise) for installed in logger.filters):
        logger.addFilter(PeerNoise())
