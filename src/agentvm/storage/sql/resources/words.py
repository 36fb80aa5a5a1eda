"""Words — the index queries of the resource search. `agentvm.storage.sql.words` cuts texts into words.

The text of a search is only ever words, never syntax.
"""

import hashlib
from typing import Literal

from agentvm.model.ids import TenantId
from agentvm.storage.sql.words import INDEXED_CHARACTERS, words

_TERMS_MAX = 32
_OPEN = "public"

# Of scope, name, tags, description, text.
WEIGHTS = "0.0, 4.0, 3.0, 2.0, 1.0"


def scope_of(tenant_id: TenantId, *, is_open: bool) -> str:
    """The words of the index that say who may find a resource."""
    return f"{_own(tenant_id)} {_OPEN}" if is_open else _own(tenant_id)


def query(text: str, tenant_id: TenantId, scope: Literal["own", "public", "all"]) -> str | None:
    """The query for the index; None when there is no word in the text, so that nothing can be found.

    Every word must be there, or one that begins with it; one that is cut into several must be there in one piece.
    """
    pieces = [piece for piece in map(words, text[:INDEXED_CHARACTERS].split()[:_TERMS_MAX]) if piece]
    if not pieces:
        return None
    who = {"own": f'"{_own(tenant_id)}"', "public": f'"{_OPEN}"', "all": f'("{_own(tenant_id)}" OR "{_OPEN}")'}[scope]
    terms = " AND ".join(f"{_quoted(piece)} *" for piece in pieces)
    return f"{{scope}} : {who} AND {{name tags description text}} : ({terms})"


def _own(tenant_id: TenantId) -> str:
    return f"t{hashlib.sha256(tenant_id.encode('utf-8', 'replace')).hexdigest()[:20]}"


def _quoted(piece: str) -> str:
    # Words have no quotation marks. Were that to change, this would still be no syntax.
    return '"' + piece.replace('"', '""') + '"'
