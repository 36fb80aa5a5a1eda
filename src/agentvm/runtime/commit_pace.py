"""Commit pace — the time between two commits of the journal.

One commit for many sessions costs less, so the more sessions are active, the longer the next commit waits. For deltas this
delay is not noticeable. A commit that is awaited, by the acceptance of a message or before a model call, is delayed less. The
two commits of a stop are not delayed.
"""

import asyncio

COMMIT_INTERVAL_SECONDS = 0.005
"""Time between two commits."""

CROWD_SESSIONS_MIN = 8
CROWD_SECONDS = 0.000_8
CROWD_MAX_SECONDS = 0.035
"""Each further active session delays the next commit a little."""

AWAITED_MAX_SECONDS = 0.01
"""Maximum delay of an awaited commit."""


def interval(sessions: int, *, is_awaited: bool = False) -> float:
    """Returns the seconds to the next commit after one of this many sessions."""
    seconds = COMMIT_INTERVAL_SECONDS + min(CROWD_MAX_SECONDS, CROWD_SECONDS * max(0, sessions - CROWD_SESSIONS_MIN))
    return min(seconds, max(COMMIT_INTERVAL_SECONDS, AWAITED_MAX_SECONDS)) if is_awaited else seconds


class CommitPace:
    """For one task that commits."""

    def __init__(self) -> None:
        self._last = 0.0
        self._sessions = 0
        self._hurried = self._awaited = False
        self._pause: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def expect(self) -> None:
        """Notes that the next commit is awaited, so that it is delayed less."""
        if self._awaited:
            return
        self._awaited = True
        if self._pause is not None:
            self._set_timer(self._pause, self._last + interval(self._sessions, is_awaited=True))

    def hurry(self) -> None:
        """The next commit waits for nothing."""
        self._hurried = True
        if self._pause is not None:
            _end(self._pause)

    async def wait(self, sessions: int) -> None:
        """Returns when the next commit is due; the last one had this many sessions."""
        loop = asyncio.get_running_loop()
        self._sessions = sessions
        due = self._last + interval(sessions, is_awaited=self._awaited)
        if self._hurried or due <= loop.time():
            # A turn that is accepted just now announces its first call in the same commit, if it is let run.
            await asyncio.sleep(0)
        else:
            self._pause = loop.create_future()
            self._set_timer(self._pause, due)
            try:
                await self._pause
            finally:
                self._pause = None
                if self._timer is not None:
                    self._timer.cancel()
        self._hurried = self._awaited = False
        self._last = loop.time()

    def _set_timer(self, pause: "asyncio.Future[None]", due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = pause.get_loop().call_at(due, _end, pause)


def _end(pause: "asyncio.Future[None]") -> None:
    if not pause.done():
        pause.set_result(None)
