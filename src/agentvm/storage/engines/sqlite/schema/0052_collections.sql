-- Collections: sets of documents that change, each change a revision. Indexes belong to a tenant, and to a version or a collection.
CREATE TABLE collections (
    collection_key INTEGER PRIMARY KEY,
    tenant_id      TEXT NOT NULL,
    collection_id  TEXT NOT NULL,
    revision       INTEGER NOT NULL,
    oldest         INTEGER NOT NULL,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    UNIQUE (tenant_id, collection_id)
) STRICT;

-- In the revisions from `added_in` to before `removed_in`. One that was deleted is in none: only its name is left.
CREATE TABLE collection_documents (
    document_key   INTEGER PRIMARY KEY,
    collection_key INTEGER NOT NULL REFERENCES collections (collection_key) ON DELETE CASCADE,
    document       TEXT NOT NULL,
    title          TEXT,
    media_type     TEXT,
    blob_key       INTEGER REFERENCES blobs (blob_key),
    digest         TEXT,
    size           INTEGER NOT NULL,
    added_in       INTEGER NOT NULL,
    added_at       INTEGER NOT NULL,
    removed_in     INTEGER,
    deleted_at     INTEGER
) STRICT;
CREATE INDEX collection_documents_by_name ON collection_documents (collection_key, document, added_in);
CREATE INDEX collection_documents_by_blob ON collection_documents (blob_key) WHERE blob_key IS NOT NULL;
CREATE INDEX collection_documents_deleted ON collection_documents (deleted_at) WHERE deleted_at IS NOT NULL;

-- Indexes follow from documents, so they are made again.
DROP TABLE knowledge_fts;
DROP TABLE knowledge_chunks;
DROP TABLE knowledge_indexes;

CREATE TABLE knowledge_indexes (
    index_key      INTEGER PRIMARY KEY,
    tenant_id      TEXT NOT NULL,
    version_key    INTEGER REFERENCES resource_versions (version_key) ON DELETE CASCADE,
    collection_key INTEGER REFERENCES collections (collection_key) ON DELETE CASCADE,
    form           TEXT NOT NULL,
    problems       BLOB NOT NULL,
    built_at       INTEGER
) STRICT;
CREATE INDEX knowledge_indexes_of_versions ON knowledge_indexes (version_key, form);
CREATE UNIQUE INDEX knowledge_indexes_of_collections ON knowledge_indexes (collection_key, form);

CREATE TABLE knowledge_chunks (
    chunk_key  INTEGER PRIMARY KEY,
    index_key  INTEGER NOT NULL REFERENCES knowledge_indexes (index_key) ON DELETE CASCADE,
    source_key INTEGER REFERENCES collection_documents (document_key) ON DELETE CASCADE,
    document   TEXT NOT NULL,
    first      INTEGER NOT NULL,
    beyond     INTEGER NOT NULL,
    text       TEXT NOT NULL,
    title      TEXT,
    heading    TEXT,
    page       INTEGER,
    vector     BLOB
) STRICT;
CREATE INDEX knowledge_chunks_of ON knowledge_chunks (index_key, document, first);
CREATE INDEX knowledge_chunks_from ON knowledge_chunks (source_key) WHERE source_key IS NOT NULL;

-- Documents of a collection that an index has, or that a node reads for it; NULL in `read_at` until it is done.
CREATE TABLE knowledge_reads (
    index_key    INTEGER NOT NULL REFERENCES knowledge_indexes (index_key) ON DELETE CASCADE,
    document_key INTEGER NOT NULL REFERENCES collection_documents (document_key) ON DELETE CASCADE,
    node_id      INTEGER NOT NULL,
    begun_at     INTEGER NOT NULL,
    read_at      INTEGER,
    chunks       INTEGER NOT NULL,
    problem      TEXT,
    PRIMARY KEY (index_key, document_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX knowledge_reads_of ON knowledge_reads (document_key);

CREATE VIRTUAL TABLE knowledge_fts USING fts5 (text, content = '', contentless_delete = 1, tokenize = 'ascii');
CREATE TRIGGER chunks_leave_search AFTER DELETE ON knowledge_chunks BEGIN
    DELETE FROM knowledge_fts WHERE rowid = old.chunk_key;
END;
