"""Wait links — one-use links that answer a wait. Of each token only a digest is stored."""

import hashlib
from typing import Any

import msgspec

from agentvm.model.wait import WaitLink
from agentvm.storage.sql.connection import Connection, Database
from agentvm.storage.sql.rows import is_present

_ADD = """
INSERT INTO wait_links (wait_key, digest, body, expires_at)
SELECT w.wait_key, :digest, :body, :expires_at
FROM waits AS w JOIN sessions AS s USING (session_key)
WHERE s.tenant_id = :tenant AND w.wait_id = :wait
"""
# Over all tenants: whoever has the token needs nothing else, and the row names the tenant.
_FIND = f"""
SELECT l.body, l.expires_at, l.used_at
FROM wait_links AS l JOIN waits AS w USING (wait_key) JOIN sessions AS s USING (session_key)
WHERE l.digest = ? AND s.deleted_at IS NULL AND {is_present("s")}
"""
_USE = "UPDATE wait_links SET used_at = :now WHERE digest = :digest AND used_at IS NULL AND expires_at > :now"


_body = msgspec.json.Decoder(WaitLink)


class WaitLinks:
    """The links of all tenants."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, token: str, link: WaitLink, expires_at: int) -> bool:
        """Stores a link; False when there is no such wait."""
        values: dict[str, Any] = {"digest": _digest(token), "body": msgspec.json.encode(link), "expires_at": expires_at}
        values |= {"tenant": link.tenant_id, "wait": link.wait_id}
        database = self._database.of(link.tenant_id)
        return await database.write(lambda connection: bool(connection.execute(_ADD, values)))

    async def find(self, token: str, now: int) -> WaitLink | None:
        """Returns a link that can still be used."""
        rows = await self._database.read(lambda connection: connection.fetch(_FIND, (_digest(token),)))
        return next((_body.decode(body) for body, expires_at, used_at in rows if used_at is None and expires_at > now), None)

    async def use(self, token: str, now: int) -> bool:
        """Uses a link up; of several who try at once one succeeds."""

        def work(connection: Connection) -> bool:
            return bool(connection.execute(_USE, {"digest": _digest(token), "now": now}))

        return await self._database.write(work)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
