-- Containers, images, sessions, messages, turns.
--
-- Rows are found by (tenant_id, container_id, ...); `position` is the order of insertion, which breaks ties between
-- equal timestamps. Messages and turns name their session by number: four ids per row would outweigh short messages,
-- and a row without ids can be reached only through the session that carries them.

CREATE TABLE containers (
    position     INTEGER PRIMARY KEY,
    tenant_id    TEXT NOT NULL,
    container_id TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    UNIQUE (tenant_id, container_id)
) STRICT;
CREATE INDEX containers_by_age ON containers (tenant_id, created_at);

-- Shared by every image with the same digest, whoever owns it: the digest is the content.
CREATE TABLE snapshots (
    digest TEXT NOT NULL PRIMARY KEY,
    body   BLOB NOT NULL
) STRICT;

CREATE TABLE images (
    position        INTEGER PRIMARY KEY,
    tenant_id       TEXT NOT NULL,
    container_id    TEXT NOT NULL,
    image_id        TEXT NOT NULL,
    session_id      TEXT NOT NULL,
    name            TEXT NOT NULL,
    description     TEXT,
    definition_name TEXT NOT NULL,
    digest          TEXT NOT NULL REFERENCES snapshots (digest),
    config          BLOB NOT NULL,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    UNIQUE (tenant_id, image_id),
    FOREIGN KEY (tenant_id, container_id) REFERENCES containers (tenant_id, container_id)
) STRICT;
CREATE INDEX images_by_age ON images (tenant_id, container_id, created_at);
CREATE INDEX images_by_digest ON images (digest);

CREATE TABLE sessions (
    session_key  INTEGER PRIMARY KEY,
    tenant_id    TEXT NOT NULL,
    container_id TEXT NOT NULL,
    image_id     TEXT NOT NULL,
    session_id   TEXT NOT NULL,
    title        TEXT,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    UNIQUE (tenant_id, session_id),
    FOREIGN KEY (tenant_id, image_id) REFERENCES images (tenant_id, image_id) ON DELETE CASCADE
) STRICT;
CREATE INDEX sessions_by_age ON sessions (tenant_id, image_id, created_at);

-- `position` only grows, so an append touches the end of the table and two index leaves, however long the session is.
CREATE TABLE messages (
    position    INTEGER PRIMARY KEY,
    session_key INTEGER NOT NULL REFERENCES sessions (session_key) ON DELETE CASCADE,
    message_id  TEXT NOT NULL,
    body        BLOB NOT NULL,
    UNIQUE (session_key, message_id)
) STRICT;
CREATE INDEX messages_in_order ON messages (session_key);

CREATE TABLE turns (
    position    INTEGER PRIMARY KEY,
    session_key INTEGER NOT NULL REFERENCES sessions (session_key) ON DELETE CASCADE,
    turn_id     TEXT NOT NULL,
    message_id  TEXT NOT NULL,
    accepted_at INTEGER NOT NULL,
    outcome     TEXT,
    usage       BLOB,
    ended_at    INTEGER,
    UNIQUE (session_key, turn_id)
) STRICT;
CREATE INDEX turns_by_age ON turns (session_key, accepted_at);
