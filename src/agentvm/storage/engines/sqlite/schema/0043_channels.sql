-- Chat channels: bots on chat platforms, and their messages until the answers have been delivered.

CREATE TABLE channels (
    position            INTEGER PRIMARY KEY,
    channel_id          TEXT NOT NULL UNIQUE,
    tenant_id           TEXT NOT NULL,
    name                TEXT NOT NULL,
    kind                TEXT NOT NULL,
    agent               TEXT NOT NULL,
    settings            BLOB NOT NULL,
    messages_per_minute INTEGER NOT NULL,
    key_id              TEXT NOT NULL,
    enabled             INTEGER NOT NULL,
    created_by          TEXT NOT NULL,
    created_at          INTEGER NOT NULL,
    updated_at          INTEGER NOT NULL,
    UNIQUE (tenant_id, name)
) STRICT;

CREATE TABLE channel_messages (
    position     INTEGER PRIMARY KEY,
    tenant_id    TEXT NOT NULL,
    channel_id   TEXT NOT NULL,
    message_key  TEXT NOT NULL,
    container_id TEXT NOT NULL,
    body         BLOB,
    answer       TEXT,
    session_id   TEXT,
    turn_id      TEXT,
    cursor       INTEGER,
    sent_pieces  INTEGER NOT NULL,
    kept         BLOB NOT NULL,
    attempts     INTEGER NOT NULL,
    next_at      INTEGER NOT NULL,
    heard_at     INTEGER NOT NULL,
    done_at      INTEGER,
    UNIQUE (channel_id, message_key)
) STRICT;
CREATE INDEX channel_messages_pending ON channel_messages (channel_id, position) WHERE done_at IS NULL;
CREATE INDEX channel_messages_of_containers ON channel_messages (tenant_id, container_id);
