-- The files of a session: each change of a file names the message that it came with, so rewinds and forks take files along.

-- `position` is that message, 0 for none: such a change stands as long as the session does. Of the changes of a path that stand
-- the one of the latest message counts. Without a blob it says that the file was deleted.
CREATE TABLE file_changes (
    session_key   INTEGER NOT NULL REFERENCES sessions (session_key) ON DELETE CASCADE,
    path          TEXT NOT NULL,
    position      INTEGER NOT NULL,
    blob_key      INTEGER REFERENCES blobs (blob_key),
    is_executable INTEGER NOT NULL,
    changed_at    INTEGER NOT NULL,
    PRIMARY KEY (session_key, path, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX file_changes_by_message ON file_changes (position) WHERE position > 0;
CREATE INDEX file_changes_by_blob ON file_changes (blob_key, session_key) WHERE blob_key IS NOT NULL;

-- Bytes that a call has stored, until its result is committed and they belong to a file.
CREATE TABLE file_claims (
    session_key INTEGER NOT NULL REFERENCES sessions (session_key) ON DELETE CASCADE,
    blob_key    INTEGER NOT NULL REFERENCES blobs (blob_key),
    claimed_at  INTEGER NOT NULL,
    PRIMARY KEY (session_key, blob_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX file_claims_by_blob ON file_claims (blob_key);
CREATE INDEX file_claims_by_time ON file_claims (claimed_at);

-- 1 for bytes that may belong to nobody any more: whoever collects them looks.
ALTER TABLE blobs ADD COLUMN is_released INTEGER NOT NULL DEFAULT 0;
CREATE INDEX blobs_released ON blobs (is_released) WHERE is_released = 1;

CREATE TRIGGER file_change_is_dropped AFTER DELETE ON file_changes WHEN old.blob_key IS NOT NULL BEGIN
    UPDATE blobs SET is_released = 1 WHERE blob_key = old.blob_key;
END;
CREATE TRIGGER file_change_is_replaced AFTER UPDATE OF blob_key ON file_changes
WHEN old.blob_key IS NOT NULL AND old.blob_key IS NOT new.blob_key BEGIN
    UPDATE blobs SET is_released = 1 WHERE blob_key = old.blob_key;
END;
CREATE TRIGGER file_claim_is_dropped AFTER DELETE ON file_claims
WHEN NOT EXISTS (SELECT 1 FROM file_changes WHERE blob_key = old.blob_key) BEGIN
    UPDATE blobs SET is_released = 1 WHERE blob_key = old.blob_key;
END;
-- A message takes its changes along, however it goes; whoever drops it as old moves them to 0 first.
CREATE TRIGGER message_takes_its_files AFTER DELETE ON all_messages BEGIN
    DELETE FROM file_changes WHERE position = old.position AND old.position > 0;
END;

-- The changes that stand: those of no message, and of messages that were neither rewound nor are still to come.
CREATE VIEW standing_changes AS
SELECT session_key, path, position, blob_key, is_executable, changed_at
FROM file_changes AS f
WHERE position = 0 OR EXISTS (SELECT 1 FROM messages AS m WHERE m.position = f.position);

CREATE VIEW session_files AS
SELECT f.session_key, f.path, b.digest, b.size, f.is_executable, f.changed_at, f.blob_key
FROM standing_changes AS f JOIN blobs AS b USING (blob_key)
WHERE NOT EXISTS (
    SELECT 1 FROM standing_changes AS later
    WHERE later.session_key = f.session_key AND later.path = f.path AND later.position > f.position
);
