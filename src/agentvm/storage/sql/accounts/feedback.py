"""FeedbackStore — the ratings of answers by the people of one tenant. A rating goes with its conversation."""

from collections.abc import Sequence
from typing import Any

import msgspec

from agentvm.model.feedback import Feedback, Rating
from agentvm.model.ids import ContainerId, SessionId, TurnId
from agentvm.storage.sql.dialect import ORDERED_JOIN, items_of
from agentvm.storage.sql.records import TenantScope

_PUT = """
INSERT INTO feedback (session_key, tenant_id, turn_id, author, rating, note, at)
SELECT session_key, tenant_id, ?, ?, ?, ?, ? FROM sessions WHERE tenant_id = ? AND session_id = ?
ON CONFLICT (session_key, turn_id, author) DO UPDATE SET rating = excluded.rating, note = excluded.note, at = excluded.at
"""
_DROP = f"""
DELETE FROM feedback
WHERE turn_id = ?2 AND author = ?3 AND session_key IN (
    SELECT session_key FROM turns {ORDERED_JOIN} sessions USING (session_key) WHERE turns.turn_id = ?2 AND tenant_id = ?1
)
"""
_LIST = """
SELECT f.position, s.session_id, f.turn_id, f.author, f.rating, f.note, f.at
FROM feedback AS f JOIN sessions AS s USING (session_key)
WHERE f.tenant_id = ?1 AND f.position < ?2 AND s.deleted_at IS NULL
  AND (CAST(?3 AS TEXT) IS NULL OR f.author = ?3)
  AND (CAST(?4 AS TEXT) IS NULL OR f.rating = ?4) AND (CAST(?5 AS TEXT) IS NULL OR s.session_id = ?5)
  AND (CAST(?6 AS TEXT) IS NULL OR s.container_id IN (ITEMS))
ORDER BY f.position DESC LIMIT ?7
""".replace("ITEMS", items_of("?6"))
_CONTAINERS = """
SELECT DISTINCT s.container_id FROM feedback AS f JOIN sessions AS s USING (session_key) WHERE f.tenant_id = ?
"""
_PLACE_MAX = 2**62


class FeedbackStore(TenantScope):
    """The ratings of one tenant."""

    async def put(self, feedback: Feedback) -> bool:
        """Replaces the author's rating of the turn; False when there is no such session."""
        row = (feedback.turn_id, feedback.author, feedback.rating, feedback.note, feedback.at)
        return await self._execute(_PUT, (*row, self._tenant_id, feedback.session_id))

    async def drop(self, turn_id: TurnId, author: str) -> bool:
        """Takes the author's rating of the turn back; False when there is none."""
        return await self._execute(_DROP, (self._tenant_id, turn_id, author))

    async def list(
        self,
        *,
        author: str | None = None,
        rating: Rating | None = None,
        session_id: SessionId | None = None,
        containers: Sequence[ContainerId] | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> tuple[tuple[int, Feedback], ...]:
        """Returns ratings with their numbers, the newest first; None means all authors, ratings, sessions or containers."""
        places = None if containers is None else msgspec.json.encode(containers).decode()
        page = (self._tenant_id, _PLACE_MAX if before is None else before, author, rating, session_id, places, limit)
        return await self._all(_decode, _LIST, page)

    async def containers(self) -> tuple[ContainerId, ...]:
        """Returns the containers with ratings."""
        return await self._all(lambda row: ContainerId(row[0]), _CONTAINERS, (self._tenant_id,))


def _decode(row: tuple[Any, ...]) -> tuple[int, Feedback]:
    number, session_id, turn_id, author, rating, note, at = row
    return number, Feedback(session_id=session_id, turn_id=turn_id, author=author, rating=rating, note=note, at=at)
