-- What users have allowed AgentVM to do for them on MCP servers, sealed; `state` is empty for tokens, else the digest of the state of
-- a consent that is waited for, until `expires_at`.

CREATE TABLE mcp_connections (
    position   INTEGER PRIMARY KEY,
    tenant_id  TEXT NOT NULL,
    user_id    TEXT NOT NULL,
    server     TEXT NOT NULL,
    state      TEXT NOT NULL,
    sealed     BLOB NOT NULL,
    -- 1 when there are tokens: a server may know AgentVM before its user has consented.
    connected  INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    expires_at INTEGER,
    UNIQUE (tenant_id, user_id, server, state)
) STRICT;
CREATE UNIQUE INDEX mcp_consents ON mcp_connections (tenant_id, state) WHERE state <> '';
