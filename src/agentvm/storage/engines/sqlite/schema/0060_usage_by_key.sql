-- The API key that a turn was asked with, so that usage can be summed by key. Earlier turns and calls have none.
ALTER TABLE turns ADD COLUMN key_id TEXT;
ALTER TABLE asked ADD COLUMN key_id TEXT;
ALTER TABLE ledger ADD COLUMN key_id TEXT;
