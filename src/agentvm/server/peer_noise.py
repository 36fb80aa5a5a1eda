"""Peer noise — what strangers make uvicorn log, kept to a few entries a minute.

Bad UTF-8, broken requests and the like are a peer's fault, and a peer can send them as fast as the network goes: entries with
traces would fill the disk that the log is on. Each kind is told a few times a minute, then counted and told as a number.
"""

import logging
import time
from collections.abc import Callable

PER_MINUTE = 5
"""Entries of one kind."""
WINDOW_SECONDS = 60.0
MAX_KINDS = 100

_PEERS_FAULT = ("Invalid UTF-8", "Invalid HTTP request", "Unsupported upgrade request", "No supported WebSocket library")


class PeerNoise(logging.Filter):
    """For the logger of uvicorn. A kind is the text before anything is filled in."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        self._kinds: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind, now = str(record.msg)[:200], self._now()
        begun, count = self._kinds.get(kind, (now, 0))
        hidden = 0
        if now - begun >= WINDOW_SECONDS:
            hidden, begun, count = max(0, count - PER_MINUTE), now, 0
        if kind not in self._kinds and len(self._kinds) >= MAX_KINDS:
            self._kinds.clear()
        self._kinds[kind] = (begun, count + 1)
        if count >= PER_MINUTE:
            return False
        if kind.startswith(_PEERS_FAULT):
            # The trace shows this server's own code, where nothing is wrong.
            record.exc_info, record.exc_text = None, None
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        if hidden:
            record.msg, record.args = f"{record.getMessage().strip()} ({hidden} more like this were not logged)", ()
        return True


def hush(name: str = "uvicorn.error") -> None:
    """Once for the process: a logger is the same for all servers in it."""
    logger = logging.getLogger(name)
    if not any(isinstance(one, PeerNoise) for one in logger.filters):
        logger.addFilter(PeerNoise())
