"""Sending — whether the request of a model call has left this process.

The caller watches it; a driver that speaks HTTP reports when the last byte of the request was written. A call that is stopped
before has used nothing, one that is stopped afterwards has been read. A driver that reports nothing sends at once.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_watched: ContextVar["Sending | None"] = ContextVar("watched", default=None)


class Sending:
    """One model call, also when its library sends the request several times."""

    __slots__ = ("_reported", "_sent")

    def __init__(self) -> None:
        self._reported = self._sent = False

    @property
    def left(self) -> bool:
        return self._sent or not self._reported

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Requests that the calling task sends within the block belong to this call."""
        token = _watched.set(self)
        try:
            yield
        finally:
            _watched.reset(token)

    def will_report(self) -> None:
        self._reported = True

    def sent(self) -> None:
        self._sent = True


def will_report() -> None:
    """The driver of the call that is being made says when its request has left."""
    if (call := _watched.get()) is not None:
        call.will_report()


def watched() -> Sending | None:
    """Returns the watched call of the current task, if there is one."""
    return _watched.get()
