-- The secrets of a tenant that tools may use: how, and to which hosts they may go. `hosts` is JSON.

CREATE TABLE secret_grants (
    position   INTEGER PRIMARY KEY,
    tenant_id  TEXT NOT NULL,
    secret     TEXT NOT NULL,
    tool       TEXT NOT NULL,
    grantee    TEXT NOT NULL,
    use        TEXT NOT NULL,
    hosts      BLOB NOT NULL,
    granted_by TEXT NOT NULL,
    granted_at INTEGER NOT NULL,
    UNIQUE (tenant_id, secret, grantee, use)
) STRICT;
