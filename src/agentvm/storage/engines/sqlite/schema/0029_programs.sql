-- Results of the calls of a program that is not finished yet: should it wait or die, it is run again with them.

CREATE TABLE program_calls (
    position    INTEGER PRIMARY KEY,
    session_key INTEGER NOT NULL REFERENCES sessions (session_key) ON DELETE CASCADE,
    turn_id     TEXT NOT NULL,
    program     TEXT NOT NULL,
    number      INTEGER NOT NULL,
    -- As JSON: it is only read as a whole.
    body        BLOB NOT NULL,
    UNIQUE (session_key, turn_id, program, number)
) STRICT;
