-- Tokens for one WebSocket each, by digest, while several nodes share the database; `body` is JSON, see `agentvm.tenants.tickets`.
CREATE TABLE tickets (
    digest bytea NOT NULL PRIMARY KEY,
    body bytea NOT NULL,
    until bigint NOT NULL
);
CREATE INDEX tickets_by_time ON tickets (until);
