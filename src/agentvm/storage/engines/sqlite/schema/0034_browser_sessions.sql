-- Browsers that are signed in with a key. `digest` is all that is known of the cookie. A session ends with its key.

CREATE TABLE browser_sessions (
    position           INTEGER PRIMARY KEY,
    browser_session_id TEXT NOT NULL,
    tenant_id          TEXT NOT NULL,
    key_id             TEXT NOT NULL,
    user_id            TEXT,
    user_agent         TEXT NOT NULL,
    created_at         INTEGER NOT NULL,
    last_used_at       INTEGER NOT NULL,
    digest             BLOB NOT NULL UNIQUE,
    UNIQUE (tenant_id, browser_session_id)
) STRICT;
CREATE INDEX browser_sessions_of_users ON browser_sessions (tenant_id, user_id);
CREATE INDEX browser_sessions_of_keys ON browser_sessions (tenant_id, key_id, last_used_at);
CREATE INDEX browser_sessions_by_use ON browser_sessions (tenant_id, last_used_at);
