-- Why a tool call was made, denied or held, and where its code ran. `body` is JSON of at most a kilobyte.

CREATE TABLE placed_calls (
    placed_key  INTEGER PRIMARY KEY,
    session_key INTEGER NOT NULL REFERENCES sessions (session_key) ON DELETE CASCADE,
    turn_id     TEXT NOT NULL,
    call_id     TEXT NOT NULL,
    body        BLOB NOT NULL,
    UNIQUE (session_key, turn_id, call_id)
) STRICT;
