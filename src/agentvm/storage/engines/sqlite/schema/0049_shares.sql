-- Links by which the people of a tenant read a conversation as it was when the link was made.
CREATE TABLE shares (
    position    INTEGER PRIMARY KEY,
    session_key INTEGER NOT NULL REFERENCES sessions (session_key) ON DELETE CASCADE,
    tenant_id   TEXT NOT NULL,
    share_id    TEXT NOT NULL UNIQUE,
    created_by  TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER
) STRICT;
CREATE INDEX shares_of_sessions ON shares (session_key, position);
CREATE INDEX shares_by_expiry ON shares (tenant_id, expires_at) WHERE expires_at IS NOT NULL;
