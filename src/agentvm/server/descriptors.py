"""Descriptors — how many files and sockets the process may have open, and which silent connections give theirs back.

A connection that sends nothing costs its peer nothing. Each is closed after a few seconds; meanwhile there may be so many, in
all and from one place, and beyond that the one that has been silent longest goes. So those that come keep finding room.
"""

import sys
from collections.abc import Callable

from agentvm.log import get_logger
from agentvm.model.address import origin_of

logger = get_logger(__name__)

USUAL_LIMIT = 1_024

if sys.platform == "win32":

    def open_files_limit() -> int:
        return USUAL_LIMIT

    def raise_open_files_limit() -> int:
        return USUAL_LIMIT

else:
    import resource

    def open_files_limit() -> int:
        """How many the process may have open now."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return USUAL_LIMIT if soft == resource.RLIM_INFINITY else soft

    def raise_open_files_limit() -> int:
        """Takes as many as the system allows without asking; the usual soft limit is for programs that wait with `select`."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError) as error:
            # macOS says it has no limit and takes no number that large.
            logger.warning("open_files_limit_not_raised", soft=soft, hard=hard, error=str(error))
        return open_files_limit()


class Silent:
    """The connections of one server that have not sent the whole head of a request."""

    def __init__(self, limit: int | None = None) -> None:
        limit = open_files_limit() if limit is None else limit
        self._most, self._of_origin = max(1, limit * 3 // 4), max(1, limit // 2)
        # Dicts for their order: the first has been silent longest.
        self._all: dict[object, tuple[str, Callable[[], None]]] = {}
        self._of: dict[str, dict[object, None]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def enter(self, connection: object, address: str, abort: Callable[[], None]) -> None:
        """`abort` is called when the connection must make way."""
        origin = origin_of(address)
        own = self._of.setdefault(origin, {})
        if len(own) >= self._of_origin:
            self._evict(next(iter(own)))
        elif len(self._all) >= self._most:
            self._evict(next(iter(self._all)))
        self._of.setdefault(origin, {})[connection] = None
        self._all[connection] = (origin, abort)

    def leave(self, connection: object) -> None:
        origin, _ = self._all.pop(connection, (None, None))
        if origin is not None:
            own = self._of[origin]
            own.pop(connection, None)
            if not own:
                del self._of[origin]

    def _evict(self, connection: object) -> None:
        _, abort = self._all[connection]
        self.leave(connection)
        abort()
