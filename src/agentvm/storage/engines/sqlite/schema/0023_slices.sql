-- What comes in over several commits, and is seen by all at once: imports, and forks of long sessions. Users go in slices, too.

-- Rows that name an arrival are hidden while it is here and not published. To publish it is one row; to give it up, its rows are
-- deleted some at a time. Keys are never given again, so rows of arrivals that are gone can keep theirs.
CREATE TABLE arrivals (
    arrival_key  INTEGER PRIMARY KEY AUTOINCREMENT,
    published_at INTEGER
) STRICT;

ALTER TABLE containers ADD COLUMN arrival_key INTEGER;
ALTER TABLE images ADD COLUMN arrival_key INTEGER;
ALTER TABLE sessions ADD COLUMN arrival_key INTEGER;
ALTER TABLE turns ADD COLUMN arrival_key INTEGER;
ALTER TABLE attachments ADD COLUMN arrival_key INTEGER;
CREATE INDEX containers_of_arrivals ON containers (arrival_key) WHERE arrival_key IS NOT NULL;
CREATE INDEX images_of_arrivals ON images (arrival_key) WHERE arrival_key IS NOT NULL;
CREATE INDEX sessions_of_arrivals ON sessions (arrival_key) WHERE arrival_key IS NOT NULL;
CREATE INDEX turns_of_arrivals ON turns (arrival_key) WHERE arrival_key IS NOT NULL;
CREATE INDEX attachments_of_arrivals ON attachments (arrival_key) WHERE arrival_key IS NOT NULL;

-- Sessions that were here already and get more messages: those from `first` to `last`. `base` is the last message before them.
-- The time and the preview are those of the session once the arrival is published.
CREATE TABLE arriving_messages (
    session_key     INTEGER NOT NULL REFERENCES sessions (session_key) ON DELETE CASCADE,
    arrival_key     INTEGER NOT NULL,
    base            INTEGER NOT NULL,
    first           INTEGER NOT NULL,
    last            INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    last_message_at INTEGER,
    preview         TEXT,
    PRIMARY KEY (session_key, arrival_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX arriving_messages_by_arrival ON arriving_messages (arrival_key);

DROP VIEW messages;
CREATE VIEW messages AS
SELECT position, session_key, message_id, body
FROM all_messages
WHERE rewind_key IS NULL AND (
    NOT EXISTS (SELECT 1 FROM rewound_ranges WHERE session_key > 0)
    OR NOT EXISTS (
        SELECT 1 FROM rewound_ranges AS r WHERE r.session_key = all_messages.session_key AND position BETWEEN r.first AND r.last
    )
) AND (
    NOT EXISTS (SELECT 1 FROM arriving_messages WHERE session_key > 0)
    OR NOT EXISTS (
        SELECT 1 FROM arriving_messages AS a JOIN arrivals USING (arrival_key)
        WHERE a.session_key = all_messages.session_key AND position BETWEEN a.first AND a.last AND published_at IS NULL
    )
);

DROP VIEW placed_messages;
CREATE VIEW placed_messages AS
SELECT position, session_key, message_id, body, coalesce(rewind_key, (
    SELECT min(r.rewind_key) FROM rewound_ranges AS r
    WHERE r.session_key = all_messages.session_key AND position BETWEEN r.first AND r.last
)) AS rewind_key
FROM all_messages
WHERE NOT EXISTS (SELECT 1 FROM arriving_messages WHERE session_key > 0)
   OR NOT EXISTS (
        SELECT 1 FROM arriving_messages AS a JOIN arrivals USING (arrival_key)
        WHERE a.session_key = all_messages.session_key AND position BETWEEN a.first AND a.last AND published_at IS NULL
   );

-- What an older server had not finished: it is given up like any other. It kept imports under names that are no tenant's, and
-- forks deleted in the far future.
INSERT INTO arrivals (published_at)
SELECT NULL WHERE EXISTS (SELECT 1 FROM containers WHERE tenant_id >= 'importing:' AND tenant_id < 'importing;')
               OR EXISTS (SELECT 1 FROM sessions WHERE deleted_at = 4611686018427387904);
UPDATE sessions SET arrival_key = 1
WHERE (tenant_id >= 'importing:' AND tenant_id < 'importing;') OR deleted_at = 4611686018427387904;
UPDATE images SET arrival_key = 1 WHERE tenant_id >= 'importing:' AND tenant_id < 'importing;';
UPDATE attachments SET arrival_key = 1 WHERE tenant_id >= 'importing:' AND tenant_id < 'importing;';
UPDATE containers SET arrival_key = 1 WHERE tenant_id >= 'importing:' AND tenant_id < 'importing;';

-- A user that was deleted: from then on nobody finds it, and its keys open nothing. The row goes when its keys, limits, bindings
-- and drafts are gone, some in each commit.
ALTER TABLE users ADD COLUMN deleted_at INTEGER;
DROP TRIGGER users_take_their_drafts;
