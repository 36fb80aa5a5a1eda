-- Tool calls that wait for somebody. A turn whose open calls all wait is parked: it is not in memory, and a start leaves it alone.

ALTER TABLE turns ADD COLUMN parked_at INTEGER;
ALTER TABLE turns ADD COLUMN active_ms INTEGER NOT NULL DEFAULT 0;
CREATE INDEX turns_parked ON turns (session_key) WHERE parked_at IS NOT NULL;

CREATE TABLE waits (
    wait_key    INTEGER PRIMARY KEY,
    wait_id     TEXT NOT NULL UNIQUE,
    session_key INTEGER NOT NULL REFERENCES sessions (session_key) ON DELETE CASCADE,
    turn_id     TEXT NOT NULL,
    call_id     TEXT NOT NULL,
    tool        TEXT NOT NULL,
    version     TEXT NOT NULL,
    -- The rest as JSON: it is only read as a whole.
    body        BLOB NOT NULL,
    expires_at  INTEGER NOT NULL,
    answered_at INTEGER,
    answered_by TEXT,
    answer      BLOB,
    -- 'session' or 'image': further calls of this version of the tool need no approval there.
    remember    TEXT,
    started_at  INTEGER,
    UNIQUE (session_key, turn_id, call_id)
) STRICT;
CREATE INDEX waits_due ON waits (expires_at) WHERE answered_at IS NULL;
CREATE INDEX waits_remembered ON waits (tool, version) WHERE remember IS NOT NULL;
