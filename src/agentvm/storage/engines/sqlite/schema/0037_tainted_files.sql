-- A file that was written after strangers' text had been read is their text, too, when it is read back.

ALTER TABLE file_changes ADD COLUMN is_tainted INTEGER NOT NULL DEFAULT 0;

DROP VIEW session_files;
DROP VIEW standing_changes;
CREATE VIEW standing_changes AS
SELECT session_key, path, position, blob_key, is_executable, is_tainted, changed_at
FROM file_changes AS f
WHERE position = 0 OR EXISTS (SELECT 1 FROM messages AS m WHERE m.position = f.position);

CREATE VIEW session_files AS
SELECT f.session_key, f.path, b.digest, b.size, f.is_executable, f.is_tainted, f.changed_at, f.blob_key
FROM standing_changes AS f JOIN blobs AS b USING (blob_key)
WHERE NOT EXISTS (
    SELECT 1 FROM standing_changes AS later
    WHERE later.session_key = f.session_key AND later.path = f.path AND later.position > f.position
);
