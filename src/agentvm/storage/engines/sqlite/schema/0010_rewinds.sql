-- What was taken back of a session: it is kept, and nobody who reads a history sees it.

-- `position` of the last message then, so that the history as it was can be told from what was said since.
CREATE TABLE rewinds (
    rewind_key  INTEGER PRIMARY KEY AUTOINCREMENT,
    session_key INTEGER NOT NULL REFERENCES sessions (session_key) ON DELETE CASCADE,
    rewind_id   TEXT NOT NULL,
    at          INTEGER NOT NULL,
    last        INTEGER NOT NULL,
    UNIQUE (session_key, rewind_id)
) STRICT;

-- Whoever reads `messages` reads what stands; only who writes, or looks at what was taken back, names the table.
ALTER TABLE messages RENAME TO all_messages;
ALTER TABLE all_messages ADD COLUMN rewind_key INTEGER;
DROP INDEX messages_in_order;
CREATE INDEX messages_in_order ON all_messages (session_key, rewind_key);
CREATE VIEW messages AS SELECT position, session_key, message_id, body FROM all_messages WHERE rewind_key IS NULL;
