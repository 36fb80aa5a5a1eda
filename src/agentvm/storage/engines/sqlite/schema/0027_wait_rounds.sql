-- A call may wait more than once: for an approval, then for what its tool asks. Rounds are counted from 0.

CREATE TABLE waits_by_round (
    wait_key    INTEGER PRIMARY KEY,
    wait_id     TEXT NOT NULL UNIQUE,
    session_key INTEGER NOT NULL REFERENCES sessions (session_key) ON DELETE CASCADE,
    turn_id     TEXT NOT NULL,
    call_id     TEXT NOT NULL,
    round       INTEGER NOT NULL,
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
    UNIQUE (session_key, turn_id, call_id, round)
) STRICT;
INSERT INTO waits_by_round (wait_key, wait_id, session_key, turn_id, call_id, round, tool, version, body, expires_at,
                            answered_at, answered_by, answer, remember, started_at)
SELECT wait_key, wait_id, session_key, turn_id, call_id, 0, tool, version, body, expires_at,
       answered_at, answered_by, answer, remember, started_at
FROM waits;
DROP TABLE waits;
ALTER TABLE waits_by_round RENAME TO waits;
CREATE INDEX waits_due ON waits (expires_at) WHERE answered_at IS NULL;
CREATE INDEX waits_remembered ON waits (tool, version) WHERE remember IS NOT NULL;

-- One-use links that answer a wait. Of the token only a digest is kept: who reads the database cannot answer.
CREATE TABLE wait_links (
    link_key   INTEGER PRIMARY KEY,
    wait_key   INTEGER NOT NULL REFERENCES waits (wait_key) ON DELETE CASCADE,
    digest     BLOB NOT NULL UNIQUE,
    body       BLOB NOT NULL,
    expires_at INTEGER NOT NULL,
    used_at    INTEGER
) STRICT;
CREATE INDEX wait_links_wait ON wait_links (wait_key);
