-- Resources, their versions, what these are locked to, and what images are locked to.
--
-- Rows name each other by number; ids are for those outside. A version's rows never change, but for whether it is withdrawn.

CREATE TABLE resources (
    resource_key INTEGER PRIMARY KEY,
    resource_id  TEXT NOT NULL UNIQUE,
    tenant_id    TEXT NOT NULL,
    type         TEXT NOT NULL,
    name         TEXT NOT NULL,
    visibility   TEXT NOT NULL,
    description  TEXT,
    tags         BLOB NOT NULL,
    deprecated   TEXT,
    latest_key   INTEGER REFERENCES resource_versions (version_key),
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    deleted_at   INTEGER
) STRICT;
-- A deleted resource that somebody is still locked to keeps its row, so one name may have one living and some deleted.
CREATE UNIQUE INDEX resources_living ON resources (tenant_id, type, name) WHERE deleted_at IS NULL;
CREATE INDEX resources_deleted ON resources (tenant_id, type, name, deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX resources_by_latest ON resources (latest_key);
-- These are in the order of lists, and hold all that counting them needs.
CREATE INDEX resources_own ON resources (tenant_id, name, resource_id) WHERE deleted_at IS NULL;
CREATE INDEX resources_public ON resources (visibility, name, resource_id, tenant_id)
    WHERE deleted_at IS NULL AND latest_key IS NOT NULL;
CREATE INDEX resources_public_by_type ON resources (visibility, type, name, resource_id, tenant_id)
    WHERE deleted_at IS NULL AND latest_key IS NOT NULL;

CREATE TABLE resource_words (
    word         TEXT NOT NULL,
    resource_key INTEGER NOT NULL REFERENCES resources (resource_key) ON DELETE CASCADE,
    PRIMARY KEY (word, resource_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX resource_words_of ON resource_words (resource_key);

-- Shared by all versions with the same bytes, whosever they are: the digest is the content. `unused_since` is NULL while a
-- version refers to it, 0 when one that did has gone, and then the time when it was found that no other does.
CREATE TABLE resource_blobs (
    digest       TEXT NOT NULL PRIMARY KEY,
    body         BLOB NOT NULL,
    unused_since INTEGER
) STRICT;
CREATE INDEX resource_blobs_unused ON resource_blobs (unused_since) WHERE unused_since IS NOT NULL;

-- `rank` is the version without its build: two builds are one version. `is_open` says that everything it is locked to was
-- public when it became so itself; only such versions are shown to other tenants. `words` is what is searched.
CREATE TABLE resource_versions (
    version_key  INTEGER PRIMARY KEY,
    version_id   TEXT NOT NULL UNIQUE,
    resource_key INTEGER NOT NULL REFERENCES resources (resource_key) ON DELETE CASCADE,
    version      TEXT NOT NULL,
    rank         TEXT NOT NULL,
    digest       TEXT NOT NULL,
    content      TEXT NOT NULL REFERENCES resource_blobs (digest),
    size         INTEGER NOT NULL,
    schema       BLOB,
    words        TEXT NOT NULL,
    is_open      INTEGER NOT NULL DEFAULT 0,
    created_by   TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    yanked_at    INTEGER,
    unused_since INTEGER,
    UNIQUE (resource_key, rank)
) STRICT;
CREATE INDEX resource_versions_by_content ON resource_versions (content);

CREATE TABLE version_blobs (
    version_key INTEGER NOT NULL REFERENCES resource_versions (version_key) ON DELETE CASCADE,
    digest      TEXT NOT NULL REFERENCES resource_blobs (digest),
    PRIMARY KEY (version_key, digest)
) STRICT, WITHOUT ROWID;
CREATE INDEX version_blobs_by_digest ON version_blobs (digest);

CREATE TRIGGER resource_content_is_released AFTER DELETE ON resource_versions BEGIN
    UPDATE resource_blobs SET unused_since = 0 WHERE digest = OLD.content AND unused_since IS NULL;
END;
CREATE TRIGGER resource_blob_is_released AFTER DELETE ON version_blobs BEGIN
    UPDATE resource_blobs SET unused_since = 0 WHERE digest = OLD.digest AND unused_since IS NULL;
END;

-- Tags that point to versions; `latest` is none of them.
CREATE TABLE resource_tags (
    resource_key INTEGER NOT NULL REFERENCES resources (resource_key) ON DELETE CASCADE,
    tag          TEXT NOT NULL,
    version_key  INTEGER NOT NULL REFERENCES resource_versions (version_key) ON DELETE CASCADE,
    PRIMARY KEY (resource_key, tag)
) STRICT, WITHOUT ROWID;
CREATE INDEX resource_tags_of_versions ON resource_tags (version_key);

-- What a version is locked to cannot go before it.
CREATE TABLE resource_deps (
    version_key INTEGER NOT NULL REFERENCES resource_versions (version_key) ON DELETE CASCADE,
    alias       TEXT NOT NULL,
    uri         TEXT NOT NULL,
    target_key  INTEGER NOT NULL REFERENCES resource_versions (version_key),
    floating    INTEGER NOT NULL,
    PRIMARY KEY (version_key, alias)
) STRICT, WITHOUT ROWID;
CREATE INDEX resource_deps_on ON resource_deps (target_key, version_key);

ALTER TABLE images ADD COLUMN source BLOB;
ALTER TABLE images ADD COLUMN lock BLOB;
CREATE TABLE image_refs (
    position    INTEGER NOT NULL REFERENCES images (position) ON DELETE CASCADE,
    version_key INTEGER NOT NULL REFERENCES resource_versions (version_key),
    PRIMARY KEY (position, version_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX image_refs_on ON image_refs (version_key, position);

-- Holds words, not texts: `agentvm.storage.sqlite.resources.words` cuts them, so any SQLite can open the file. `scope` says
-- who may find a row, so that a search does not wade through what other tenants keep to themselves.
CREATE VIRTUAL TABLE resource_fts USING fts5 (
    scope, name, tags, description, text, content = '', contentless_delete = 1, tokenize = 'ascii'
);
