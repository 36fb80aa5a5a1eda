-- Names that clients of other protocols give to sessions: a thread, a chat, the digest of a history.

CREATE TABLE aliases (
    alias_key    INTEGER PRIMARY KEY,
    session_key  INTEGER NOT NULL REFERENCES sessions (session_key) ON DELETE CASCADE,
    tenant_id    TEXT NOT NULL,
    container_id TEXT NOT NULL,
    gateway      TEXT NOT NULL,
    external     TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    UNIQUE (tenant_id, container_id, gateway, external)
) STRICT;
CREATE INDEX aliases_of_sessions ON aliases (session_key);

-- What the sender of a message chose for its turn, as JSON.
ALTER TABLE turns ADD COLUMN options BLOB;
