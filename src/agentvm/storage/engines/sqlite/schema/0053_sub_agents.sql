-- Sessions of sub-agents: the agent of the image that answers in one, the call that it works for, and the session and the turn of
-- people at the top. Such a session is in no list, and goes with its root.
ALTER TABLE sessions ADD COLUMN agent TEXT;
ALTER TABLE sessions ADD COLUMN parent_session TEXT;
ALTER TABLE sessions ADD COLUMN parent_turn TEXT;
ALTER TABLE sessions ADD COLUMN parent_call TEXT;
ALTER TABLE sessions ADD COLUMN root_session TEXT;
ALTER TABLE sessions ADD COLUMN root_turn TEXT;
CREATE INDEX sessions_below ON sessions (tenant_id, root_session) WHERE root_session IS NOT NULL;
CREATE INDEX sessions_called ON sessions (tenant_id, parent_turn) WHERE parent_turn IS NOT NULL;
CREATE INDEX sessions_of_turns ON sessions (tenant_id, root_turn) WHERE root_turn IS NOT NULL;
CREATE INDEX waits_for_agents ON waits (wait_key) WHERE kind = 'child' AND answered_at IS NULL;
