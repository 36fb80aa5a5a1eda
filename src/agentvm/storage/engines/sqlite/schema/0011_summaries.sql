-- What a conversation came to, beside the messages it was made of: they stay as they are, and the summary can go.

-- It covers what stands before `next`, and of what comes after only messages of the turns in `beyond`: a message that was queued
-- is stored before the answer ahead of it. `last` is the position of the last message that is covered, `message_id` the one that
-- the conversation had come to.
CREATE TABLE summaries (
    summary_key INTEGER PRIMARY KEY AUTOINCREMENT,
    session_key INTEGER NOT NULL REFERENCES sessions (session_key) ON DELETE CASCADE,
    summary_id  TEXT NOT NULL,
    message_id  TEXT NOT NULL,
    last        INTEGER NOT NULL,
    next        INTEGER NOT NULL,
    beyond      TEXT NOT NULL,
    text        TEXT NOT NULL,
    tokens      INTEGER NOT NULL,
    model       TEXT NOT NULL,
    made_at     INTEGER NOT NULL,
    user_id     TEXT,
    UNIQUE (session_key, summary_id)
) STRICT;
CREATE INDEX summaries_of_session ON summaries (session_key);
