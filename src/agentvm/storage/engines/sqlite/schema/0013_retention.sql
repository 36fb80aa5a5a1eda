-- What was taken back is found by when that was, so that it can be dropped.
CREATE INDEX rewinds_by_age ON rewinds (at);

-- What somebody has begun to write in a session and not sent. `author` is a user, '' for nobody in particular; `device` is ''
-- for what is of no device.
CREATE TABLE drafts (
    session_key INTEGER NOT NULL REFERENCES sessions (session_key) ON DELETE CASCADE,
    author      TEXT NOT NULL,
    device      TEXT NOT NULL,
    text        TEXT NOT NULL,
    updated_at  INTEGER NOT NULL,
    PRIMARY KEY (session_key, author, device)
) STRICT, WITHOUT ROWID;
CREATE INDEX drafts_by_author ON drafts (author, updated_at);

-- Whoever goes takes what they have not sent along.
CREATE TRIGGER users_take_their_drafts AFTER DELETE ON users BEGIN
    DELETE FROM drafts
    WHERE author = OLD.user_id
      AND session_key IN (SELECT session_key FROM sessions WHERE tenant_id = OLD.tenant_id);
END;

-- Bytes that left a tenant by exports, by the day (in UTC) on which they began: a limit counts them whatever restarts.
CREATE TABLE exports (
    tenant_id TEXT NOT NULL,
    day       INTEGER NOT NULL,
    bytes     INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, day)
) STRICT, WITHOUT ROWID;
