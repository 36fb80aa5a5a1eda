-- Definitions that tenants register while the server runs. `size` is that of the body, so that limits need no bodies.
CREATE TABLE definitions (
    tenant_id  TEXT NOT NULL,
    name       TEXT NOT NULL,
    body       BLOB NOT NULL,
    size       INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, name)
) STRICT, WITHOUT ROWID;
