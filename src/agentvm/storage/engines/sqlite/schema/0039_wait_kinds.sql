-- Waits for a consent are found among all others, and an answer that was a message is one however often it is sent.
-- Rows from before have no kind here: whoever looks for one reads them.
ALTER TABLE waits ADD COLUMN kind TEXT;
ALTER TABLE waits ADD COLUMN client_key TEXT;
