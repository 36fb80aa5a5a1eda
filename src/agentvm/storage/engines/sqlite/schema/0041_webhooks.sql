-- Addresses of tenants that are told of events. The secrets are sealed; `events` has a blank before and behind each.

CREATE TABLE webhooks (
    webhook_key     INTEGER PRIMARY KEY,
    tenant_id       TEXT NOT NULL,
    webhook_id      TEXT NOT NULL UNIQUE,
    url             TEXT NOT NULL,
    events          TEXT NOT NULL,
    description     TEXT,
    secret          BLOB NOT NULL,
    previous_secret BLOB,
    previous_until  INTEGER,
    created_by      TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    failing_since   INTEGER,
    disabled_at     INTEGER,
    disabled_reason TEXT
) STRICT;
CREATE INDEX webhooks_of_tenants ON webhooks (tenant_id, webhook_key);

-- What is to be sent, in the commit of the event, and what became of it; pending while there is a time in `next_at`.
CREATE TABLE webhook_deliveries (
    delivery_key INTEGER PRIMARY KEY,
    webhook_key  INTEGER NOT NULL REFERENCES webhooks (webhook_key) ON DELETE CASCADE,
    tenant_id    TEXT NOT NULL,
    container_id TEXT,
    event_id     TEXT NOT NULL,
    type         TEXT NOT NULL,
    body         BLOB NOT NULL,
    created_at   INTEGER NOT NULL,
    attempts     INTEGER NOT NULL DEFAULT 0,
    next_at      INTEGER,
    last_at      INTEGER,
    delivered_at INTEGER,
    status       INTEGER,
    error        TEXT,
    UNIQUE (webhook_key, event_id)
) STRICT;
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (webhook_key, next_at) WHERE next_at IS NOT NULL;
CREATE INDEX webhook_deliveries_of_containers ON webhook_deliveries (tenant_id, container_id);
CREATE INDEX webhook_deliveries_by_age ON webhook_deliveries (created_at);
