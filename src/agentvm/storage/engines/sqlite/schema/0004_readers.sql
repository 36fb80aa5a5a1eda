-- How far clients that name themselves had read each session when they were last connected.

CREATE TABLE readers (
    tenant_id   TEXT NOT NULL,
    client_id   TEXT NOT NULL,
    session_key INTEGER NOT NULL REFERENCES sessions (session_key) ON DELETE CASCADE,
    seq         INTEGER NOT NULL,
    saved_at    INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, client_id, session_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX readers_of_session ON readers (session_key);
CREATE INDEX readers_by_age ON readers (saved_at);
