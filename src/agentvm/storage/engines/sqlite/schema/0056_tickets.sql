-- Tokens for one WebSocket each, by digest, while several nodes share the database; `body` is JSON, see `agentvm.tenants.tickets`.
CREATE TABLE tickets (
    digest BLOB NOT NULL PRIMARY KEY,
    body   BLOB NOT NULL,
    until  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX tickets_by_time ON tickets (until);
