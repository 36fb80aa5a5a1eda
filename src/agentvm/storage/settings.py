"""Settings — the interface of the database for settings that were changed at run time.

As everywhere, a repository is for a scope: `store.settings(tenant_id)` sees the changes of one tenant, `store.settings(None)`
those of the server itself. Changes are only ever added; the effective values follow from them. Secret values are encrypted
before they are passed here. Conformance: `tests.conformance.settings`.
"""

from agentvm.model.base import Record


class Change(Record):
    """One change, whole or not at all. `changes` are the new values by key, and None for removed ones.

    `revision` counts the changes of the scope, from 1 on without gaps.
    """

    revision: int
    at: int
    actor: str
    changes: dict[str, object]
    request_id: str | None = None
    note: str | None = None
