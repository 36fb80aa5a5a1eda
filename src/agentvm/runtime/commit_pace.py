"""Commit pace — the time between two commits of the journal.

A commit costs less for many sessions together, so the more of them speak, the longer the next one waits. Nobody notices that
of a delta; whoever stops a turn waits for two commits, which are not put off.
"""

import asyncio

COMMIT_INTERVAL_SECONDS = 0.005
"""Time between two commits."""

CROWD_SESSIONS_MIN = 8
CROWD_SECONDS = 0.000_8
CROWD_MAX_SECONDS = 0.035
"""For each further session that speaks the next commit waits a little longer."""


def interval(sessions: int) -> float:
    """Returns the seconds to the next commit after one of so many sessions."""
    return COMMIT_INTERVAL_SECONDS + min(CROWD_MAX_SECONDS, CROWD_SECONDS * max(0, sessions - CROWD_SESSIONS_MIN))


class CommitPace:
    """For one task that commits."""

    def __init__(self) -> None:
        self._last = 0.0
        self._hurried = False
        self._pause: asyncio.Future[None] | None = None

    def hurry(self) -> None:
        """The next commit waits for nothing."""
        self._hurried = True
        if self._pause is not None:
            _end(self._pause)

    async def wait(self, sessions: int) -> None:
        """Returns when the next commit is due; the last one had so many sessions."""
        loop = asyncio.get_running_loop()
        due = self._last + interval(sessions)
        if self._hurried or due <= loop.time():
            # A turn that is accepted just now announces its first call in the same commit, if it is let run.
            await asyncio.sleep(0)
        else:
            self._pause = loop.create_future()
            timer = loop.call_at(due, _end, self._pause)
            try:
                await self._pause
            finally:
                timer.cancel()
                self._pause = None
        self._hurried = False
        self._last = loop.time()


def _end(pause: "asyncio.Future[None]") -> None:
    if not pause.done():
        pause.set_result(None)
