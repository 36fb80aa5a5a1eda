-- Deleting is deleting: what is being erased, and what of it must never come back.

-- When it was deleted. From then on nobody finds it and nothing is added to it; the row goes when all that was in it is gone.
ALTER TABLE containers ADD COLUMN deleted_at INTEGER;
CREATE INDEX bindings_of_containers ON bindings (tenant_id, container_id);

-- One row for each container, user or tenant that was deleted, until nothing of it is left in the file. Without a container and
-- a user it is about the tenant. `salt` is what the names of its containers in the ledger are replaced with the help of,
-- `ledger_place` how far that has come. `journal_entry` is NULL while rows are left, then the last entry of the journal that may
-- tell of it, and 0 when that is gone.
CREATE TABLE erasures (
    erasure_key   INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id     TEXT NOT NULL,
    container_id  TEXT,
    user_id       TEXT,
    asked_at      INTEGER NOT NULL,
    salt          BLOB NOT NULL DEFAULT (randomblob(16)),
    ledger_place  INTEGER NOT NULL DEFAULT 0,
    journal_entry INTEGER
) STRICT;

-- Containers of users who were deleted, by the SHA-256 of their names: they are given to nobody else.
CREATE TABLE retired_homes (
    tenant_id TEXT NOT NULL,
    digest    BLOB NOT NULL,
    PRIMARY KEY (tenant_id, digest)
) STRICT, WITHOUT ROWID;

CREATE INDEX read_marks_by_reader ON read_marks (reader);

-- The drafts of one author are few, the sessions of a tenant many.
DROP TRIGGER users_take_their_drafts;
CREATE TRIGGER users_take_their_drafts AFTER DELETE ON users BEGIN
    DELETE FROM drafts
    WHERE author = OLD.user_id
      AND EXISTS (SELECT 1 FROM sessions AS s WHERE s.session_key = drafts.session_key AND s.tenant_id = OLD.tenant_id);
END;

-- What was used stays; only the name of a container that was erased is replaced.
DROP TRIGGER ledger_stays;
CREATE TRIGGER ledger_stays BEFORE UPDATE ON ledger
WHEN NOT (
    NEW.container_id LIKE 'erased-%' AND NEW.position = OLD.position AND NEW.tenant_id = OLD.tenant_id AND NEW.key = OLD.key
    AND NEW.at = OLD.at AND NEW.user_id IS OLD.user_id AND NEW.image_id = OLD.image_id AND NEW.session_id = OLD.session_id
    AND NEW.turn_id = OLD.turn_id AND NEW.driver = OLD.driver AND NEW.model = OLD.model
    AND NEW.input_tokens = OLD.input_tokens AND NEW.output_tokens = OLD.output_tokens
    AND NEW.cache_read_tokens = OLD.cache_read_tokens AND NEW.cache_write_tokens = OLD.cache_write_tokens
    AND NEW.thinking_tokens = OLD.thinking_tokens AND NEW.estimated = OLD.estimated
    AND NEW.cost IS OLD.cost AND NEW.price IS OLD.price
) BEGIN SELECT RAISE (ABORT, 'the ledger is append-only'); END;

-- Settings go with their tenant.
DROP TRIGGER setting_changes_are_kept;
CREATE TRIGGER setting_changes_are_kept BEFORE DELETE ON setting_changes
WHEN NOT EXISTS (SELECT 1 FROM tenants AS t WHERE t.tenant_id = OLD.scope AND t.deleted_at IS NOT NULL) BEGIN
    SELECT RAISE (ABORT, 'the changes of settings are append-only');
END;

-- Those that were deleted when their conversations stayed.
INSERT INTO erasures (tenant_id, asked_at) SELECT tenant_id, deleted_at FROM tenants WHERE deleted_at IS NOT NULL;
