-- Lists of a whole tenant: without it a page of them sorts all sessions.
CREATE INDEX sessions_of_tenants ON sessions (tenant_id, is_pinned, active_at, session_key) WHERE deleted_at IS NULL;
