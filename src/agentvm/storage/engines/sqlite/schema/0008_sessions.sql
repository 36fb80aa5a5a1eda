-- What people do with their sessions, how far they have read them, and the search over what was said.

ALTER TABLE sessions ADD COLUMN pinned_at INTEGER;
ALTER TABLE sessions ADD COLUMN archived_at INTEGER;
ALTER TABLE sessions ADD COLUMN deleted_at INTEGER;
ALTER TABLE sessions ADD COLUMN forked_session TEXT;
ALTER TABLE sessions ADD COLUMN forked_message TEXT;
ALTER TABLE sessions ADD COLUMN last_message_at INTEGER;
ALTER TABLE sessions ADD COLUMN preview TEXT;
-- How many answers and errors it has, so that a list need not count what is unread. Those from before are not counted.
ALTER TABLE sessions ADD COLUMN answers INTEGER NOT NULL DEFAULT 0;
-- What lists are sorted by.
ALTER TABLE sessions ADD COLUMN is_pinned INTEGER GENERATED ALWAYS AS (pinned_at IS NOT NULL) VIRTUAL;
ALTER TABLE sessions ADD COLUMN active_at INTEGER GENERATED ALWAYS AS (coalesce(last_message_at, created_at)) VIRTUAL;
CREATE INDEX sessions_by_activity ON sessions (tenant_id, container_id, is_pinned, active_at, session_key)
    WHERE deleted_at IS NULL;
CREATE INDEX sessions_deleted ON sessions (deleted_at) WHERE deleted_at IS NOT NULL;

UPDATE sessions SET last_message_at = (
    SELECT iif(json_valid(CAST(body AS TEXT)), CAST(json_extract(CAST(body AS TEXT), '$.timestamp') AS INTEGER), NULL)
    FROM messages WHERE messages.session_key = sessions.session_key
    ORDER BY position DESC LIMIT 1
);

-- How far somebody has read: `answers` is how many of the session's answers they know. `device` is '' for the person.
CREATE TABLE read_marks (
    session_key INTEGER NOT NULL REFERENCES sessions (session_key) ON DELETE CASCADE,
    reader      TEXT NOT NULL,
    device      TEXT NOT NULL,
    position    INTEGER NOT NULL,
    answers     INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    PRIMARY KEY (session_key, reader, device)
) STRICT, WITHOUT ROWID;

-- What a search is narrowed by, apart from the bodies, which are long.
CREATE TABLE message_facts (
    position    INTEGER PRIMARY KEY,
    session_key INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    kind        TEXT NOT NULL,
    tool        TEXT
) STRICT;

-- Holds words, not texts: `agentvm.storage.sqlite.words` cuts them, so any SQLite can open the file. Each word begins with the
-- key of its container, so a search never looks at what others have said.
CREATE VIRTUAL TABLE message_fts USING fts5 (text, content = '', contentless_delete = 1, tokenize = 'ascii');
-- What was written is put together beside the turns (`tend`), not by whichever of them comes at the wrong moment.
INSERT INTO message_fts (message_fts, rank) VALUES ('automerge', 0);
INSERT INTO message_fts (message_fts, rank) VALUES ('crisismerge', 64);

-- However a message goes, it leaves the search in the same transaction.
CREATE TRIGGER messages_leave_search AFTER DELETE ON messages BEGIN
    DELETE FROM message_fts WHERE rowid = old.position;
    DELETE FROM message_facts WHERE position = old.position;
END;

-- Messages up to `next` are from before there was a search; they are taken in from there downwards, some at a time.
CREATE TABLE search_backlog (next INTEGER NOT NULL) STRICT;
INSERT INTO search_backlog SELECT max(position) FROM messages HAVING max(position) IS NOT NULL;
