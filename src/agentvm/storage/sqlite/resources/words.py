"""Words — how texts are cut for the search, the same way when they are stored and when they are asked for.

Words are cut as Unicode says, without case, marks and variants of letters. Chinese and Japanese characters are words of their
own, so a word of two is a phrase and is found inside a sentence. What a user types is only ever words: nothing of it is syntax.
"""

import hashlib
from typing import Literal

from agentvm.model.ids import TenantId

MOST_CHARACTERS = 100_000
"""Of a text; what is beyond is not searched. The writer's time is everybody's."""
_MOST_TERMS = 32
# Unicode takes read_file and docs.intro for one word; who looks for a file does not.
_WITHIN = str.maketrans({"_": " ", ".": " ", ":": " ", "’": "'"})
_OPEN = "public"

# Of scope, name, tags, description, text.
WEIGHTS = "0.0, 4.0, 3.0, 2.0, 1.0"


def words(text: str) -> str:
    """The words of a text, with spaces between them."""
    # Here, because these tables take longer to load than everything else of the database, and few processes need them.
    from apsw import unicode  # noqa: PLC0415

    cut = unicode.word_iter(unicode.casefold(text[:MOST_CHARACTERS].translate(_WITHIN)))
    # Not before it is cut: without marks there are no spaces either.
    return " ".join(word if word.isascii() else unicode.strip(word) for word in cut)


def scope_of(tenant_id: TenantId, *, is_open: bool) -> str:
    """Who may find a resource, as words of the index."""
    return f"{_own(tenant_id)} {_OPEN}" if is_open else _own(tenant_id)


def query(text: str, tenant_id: TenantId, scope: Literal["own", "public", "all"]) -> str | None:
    """What to ask the index; None when there is no word in the text, so that nothing can be found.

    Every word must be there, or one that begins with it; one that is cut into several must be there in one piece.
    """
    pieces = [piece for piece in map(words, text[:MOST_CHARACTERS].split()[:_MOST_TERMS]) if piece]
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
