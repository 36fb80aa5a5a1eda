-- Why a session is set aside: the server did not survive it, or could not read it. NULL for all others, which is nearly all.
ALTER TABLE sessions ADD COLUMN quarantine TEXT;
CREATE INDEX sessions_in_quarantine ON sessions (tenant_id) WHERE quarantine IS NOT NULL;
