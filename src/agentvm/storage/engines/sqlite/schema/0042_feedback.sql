-- What people think of answers: one rating of a turn by each of them.
CREATE TABLE feedback (
    position    INTEGER PRIMARY KEY,
    session_key INTEGER NOT NULL REFERENCES sessions (session_key) ON DELETE CASCADE,
    tenant_id   TEXT NOT NULL,
    turn_id     TEXT NOT NULL,
    author      TEXT NOT NULL,
    rating      TEXT NOT NULL,
    note        TEXT,
    at          INTEGER NOT NULL,
    UNIQUE (session_key, turn_id, author)
) STRICT;
CREATE INDEX feedback_in_order ON feedback (tenant_id, position);
