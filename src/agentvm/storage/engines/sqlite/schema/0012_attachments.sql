-- Files that were uploaded, and which messages refer to them.

-- Shared by all who have uploaded the same bytes: the digest is the content. Whoever reads one goes through `attachments`.
-- One that is large comes piece by piece, under a name that is no digest; `begun_at` is when, and NULL once it is whole.
CREATE TABLE blobs (
    blob_key INTEGER PRIMARY KEY,
    digest   TEXT NOT NULL UNIQUE,
    size     INTEGER NOT NULL,
    begun_at INTEGER
) STRICT;
CREATE INDEX blobs_begun ON blobs (begun_at) WHERE begun_at IS NOT NULL;
-- Apart, so that lists and sums never turn these pages; in pieces, so that nobody needs all of one in memory.
CREATE TABLE blob_chunks (
    position INTEGER PRIMARY KEY,
    blob_key INTEGER NOT NULL REFERENCES blobs (blob_key) ON DELETE CASCADE,
    number   INTEGER NOT NULL,
    body     BLOB NOT NULL,
    UNIQUE (blob_key, number)
) STRICT;

-- `unused_since` is NULL while a message refers to it, 0 when the last such message has gone and nobody has looked since.
CREATE TABLE attachments (
    attachment_key INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id      TEXT NOT NULL,
    container_id   TEXT NOT NULL,
    blob_key       INTEGER NOT NULL REFERENCES blobs (blob_key),
    media_type     TEXT NOT NULL,
    name           TEXT,
    created_at     INTEGER NOT NULL,
    uploaded_by    TEXT,
    unused_since   INTEGER,
    UNIQUE (tenant_id, container_id, blob_key),
    FOREIGN KEY (tenant_id, container_id) REFERENCES containers (tenant_id, container_id)
) STRICT;
CREATE INDEX attachments_in_order ON attachments (tenant_id, container_id, attachment_key);
CREATE INDEX attachments_by_blob ON attachments (blob_key);
CREATE INDEX attachments_unused ON attachments (unused_since) WHERE unused_since IS NOT NULL;

-- Goes with the message, however that goes; a message that was taken back keeps what it refers to.
CREATE TABLE message_attachments (
    position       INTEGER NOT NULL REFERENCES all_messages (position) ON DELETE CASCADE,
    attachment_key INTEGER NOT NULL REFERENCES attachments (attachment_key),
    PRIMARY KEY (position, attachment_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX messages_by_attachment ON message_attachments (attachment_key);

CREATE TRIGGER attachment_is_used AFTER INSERT ON message_attachments BEGIN
    UPDATE attachments SET unused_since = NULL WHERE attachment_key = new.attachment_key AND unused_since IS NOT NULL;
END;
CREATE TRIGGER attachment_is_released AFTER DELETE ON message_attachments
WHEN NOT EXISTS (SELECT 1 FROM message_attachments WHERE attachment_key = old.attachment_key) BEGIN
    UPDATE attachments SET unused_since = 0 WHERE attachment_key = old.attachment_key;
END;
