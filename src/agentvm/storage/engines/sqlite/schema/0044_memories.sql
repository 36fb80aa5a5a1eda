-- Memories: short notes that the agents of a container are told in every conversation.
CREATE TABLE memories (
    position     INTEGER PRIMARY KEY,
    tenant_id    TEXT NOT NULL,
    container_id TEXT NOT NULL,
    memory_id    TEXT NOT NULL,
    text         TEXT NOT NULL,
    by           TEXT NOT NULL,
    proposed     INTEGER NOT NULL,
    pinned       INTEGER NOT NULL,
    session_id   TEXT,
    message_id   TEXT,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    UNIQUE (tenant_id, container_id, memory_id)
) STRICT;
