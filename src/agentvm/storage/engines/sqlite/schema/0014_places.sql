-- The place of a message is never given to another: summaries and rewinds name places, also of messages that are gone.
-- One row.
CREATE TABLE message_places (one INTEGER PRIMARY KEY CHECK (one = 1), last INTEGER NOT NULL) STRICT;
INSERT INTO message_places
SELECT 1, coalesce(max(place), 0) FROM (
    SELECT max(position) AS place FROM all_messages
    UNION ALL SELECT max(last) FROM rewinds
    UNION ALL SELECT max(next) FROM summaries
    UNION ALL SELECT max(last) FROM summaries
);

-- Only the last ones can be given again, so only these are noted.
CREATE TRIGGER messages_keep_their_places AFTER DELETE ON all_messages
WHEN old.position > coalesce((SELECT max(position) FROM all_messages), 0) BEGIN
    UPDATE message_places SET last = old.position WHERE one = 1 AND last < old.position;
END;
