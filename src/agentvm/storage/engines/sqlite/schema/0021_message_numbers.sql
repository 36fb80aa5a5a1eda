-- The database itself numbers messages and gives no number twice: what is gone is still named by its number, in cursors and marks.
-- The table stays as it is, however large; only its declaration changes, as https://www.sqlite.org/lang_altertable.html describes.
INSERT INTO sqlite_sequence (name, seq)
SELECT 'all_messages', max(last, coalesce((SELECT max(position) FROM all_messages), 0)) FROM message_places;
DROP TRIGGER messages_keep_their_places;
DROP TABLE message_places;

PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, 'INTEGER PRIMARY KEY', 'INTEGER PRIMARY KEY AUTOINCREMENT')
WHERE type = 'table' AND name = 'all_messages';
PRAGMA writable_schema = RESET;
