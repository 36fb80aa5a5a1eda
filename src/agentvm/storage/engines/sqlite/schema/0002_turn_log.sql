-- The log of what happened in each session, gap-free by `seq`, and the journal that carries it until it is in the log.

-- A chunk holds the events first_seq to last_seq of a session. Text is not in it: it refers to the messages.
CREATE TABLE log (
    position    INTEGER PRIMARY KEY,
    session_key INTEGER NOT NULL REFERENCES sessions (session_key) ON DELETE CASCADE,
    first_seq   INTEGER NOT NULL,
    last_seq    INTEGER NOT NULL,
    made_at     INTEGER NOT NULL,
    body        BLOB NOT NULL,
    UNIQUE (session_key, last_seq)
) STRICT;
CREATE INDEX log_by_age ON log (made_at);

-- One row per commit for all sessions together, so that a token costs no row. Rows go when their events are in the log.
CREATE TABLE journal (
    entry INTEGER PRIMARY KEY,
    body  BLOB NOT NULL
) STRICT;

-- A sender's own key makes a repeated send one turn. `attempts` counts how often the turn was started.
ALTER TABLE turns ADD COLUMN client_key TEXT;
ALTER TABLE turns ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0;
CREATE UNIQUE INDEX turns_by_client_key ON turns (session_key, client_key) WHERE client_key IS NOT NULL;
CREATE INDEX turns_unfinished ON turns (session_key) WHERE outcome IS NULL;
