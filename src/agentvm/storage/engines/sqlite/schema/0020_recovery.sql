-- How many turns that the server may not survive were begun together, this one among them; NULL for one that is under no suspicion.
ALTER TABLE turns ADD COLUMN alongside INTEGER;

-- What a provider has refused of a session's messages: a part of a user's message by its number, or, without one, all of a message
-- and the tool calls that it made. It stays in the history, and a note stands for it in what models are told.
CREATE TABLE refused_parts (
    session_key INTEGER NOT NULL REFERENCES sessions (session_key) ON DELETE CASCADE,
    message_id  TEXT NOT NULL,
    part        INTEGER NOT NULL DEFAULT -1,
    provider    TEXT NOT NULL,
    refused_at  INTEGER NOT NULL,
    PRIMARY KEY (session_key, message_id, part)
) STRICT, WITHOUT ROWID;
