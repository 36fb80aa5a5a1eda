-- What a large rewind took back: its messages are hidden at once, and get their `rewind_key` later, some in each commit.

-- From `first` to `last` no message of the session stands. Where ranges overlap, the earlier rewind took the message.
CREATE TABLE rewound_ranges (
    session_key INTEGER NOT NULL REFERENCES sessions (session_key) ON DELETE CASCADE,
    first       INTEGER NOT NULL,
    rewind_key  INTEGER NOT NULL,
    last        INTEGER NOT NULL,
    PRIMARY KEY (session_key, first, rewind_key)
) STRICT, WITHOUT ROWID;

-- Nearly always there are no ranges: that is asked once for a statement, not for each message.
DROP VIEW messages;
CREATE VIEW messages AS
SELECT position, session_key, message_id, body
FROM all_messages
WHERE rewind_key IS NULL AND (
    NOT EXISTS (SELECT 1 FROM rewound_ranges WHERE session_key > 0)
    OR NOT EXISTS (
        SELECT 1 FROM rewound_ranges AS r WHERE r.session_key = all_messages.session_key AND position BETWEEN r.first AND r.last
    )
);

-- All messages, each with the rewind that took it back; NULL for those that stand.
CREATE VIEW placed_messages AS
SELECT position, session_key, message_id, body, coalesce(rewind_key, (
    SELECT min(r.rewind_key) FROM rewound_ranges AS r
    WHERE r.session_key = all_messages.session_key AND position BETWEEN r.first AND r.last
)) AS rewind_key
FROM all_messages;
