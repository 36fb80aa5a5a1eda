-- The signs of the numbers of vectors, one bit each: a narrow table in which the nearest passages are looked for.
CREATE TABLE knowledge_signs (
    index_key bigint NOT NULL,
    chunk_key bigint NOT NULL REFERENCES knowledge_chunks (chunk_key) ON DELETE CASCADE,
    signs bit varying NOT NULL,
    PRIMARY KEY (index_key, chunk_key)
);
CREATE INDEX knowledge_signs_of ON knowledge_signs (chunk_key);
