-- The indexes of knowledge bases: passages of the documents of a version, and their words.
CREATE TABLE knowledge_indexes (
    index_key   INTEGER PRIMARY KEY,
    version_key INTEGER NOT NULL UNIQUE REFERENCES resource_versions (version_key) ON DELETE CASCADE,
    chunker     INTEGER NOT NULL,
    problems    BLOB NOT NULL,
    built_at    INTEGER
) STRICT;

CREATE TABLE knowledge_chunks (
    chunk_key INTEGER PRIMARY KEY,
    index_key INTEGER NOT NULL REFERENCES knowledge_indexes (index_key) ON DELETE CASCADE,
    document  TEXT NOT NULL,
    first     INTEGER NOT NULL,
    beyond    INTEGER NOT NULL,
    text      TEXT NOT NULL,
    title     TEXT,
    heading   TEXT,
    page      INTEGER
) STRICT;
CREATE INDEX knowledge_chunks_of ON knowledge_chunks (index_key, document, first);

CREATE VIRTUAL TABLE knowledge_fts USING fts5 (text, content = '', contentless_delete = 1, tokenize = 'ascii');
CREATE TRIGGER chunks_leave_search AFTER DELETE ON knowledge_chunks BEGIN
    DELETE FROM knowledge_fts WHERE rowid = old.chunk_key;
END;
