"""Words — the texts of the resource search. `agentvm.storage.sql.words` cuts texts into words.

The text of a search is only ever words, never syntax.
"""

import hashlib
from typing import Literal

from agentvm.model.ids import TenantId
from agentvm.storage.sql.search_index import SearchPiece
from agentvm.storage.sql.words import INDEXED_CHARACTERS, terms_by_unicode

_TERMS_MAX = 32
_OPEN = "public"


def scope_of(tenant_id: TenantId, *, is_open: bool) -> str:
    """The index words for the visibility of a resource."""
    return f"{_own(tenant_id)} {_OPEN}" if is_open else _own(tenant_id)


def scopes_of(tenant_id: TenantId, scope: Literal["own", "public", "all"]) -> tuple[str, ...]:
    """The words of the index by which a tenant finds resources."""
    return {"own": (_own(tenant_id),), "public": (_OPEN,), "all": (_own(tenant_id), _OPEN)}[scope]


def pieces_of(text: str) -> tuple[SearchPiece, ...]:
    """The pieces of a search; none for a text without words, so that nothing can be found.

    Every word must be there, or one that begins with it; one that is cut into several must be there in one piece.
    """
    pieces = map(terms_by_unicode, text[:INDEXED_CHARACTERS].split()[:_TERMS_MAX])
    return tuple(SearchPiece(tuple(piece), open_ended=True) for piece in pieces if piece)


def _own(tenant_id: TenantId) -> str:
    return f"t{hashlib.sha256(tenant_id.encode('utf-8', 'replace')).hexdigest()[:20]}"
