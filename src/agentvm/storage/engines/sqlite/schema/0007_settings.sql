-- What was changed of the settings at run time. Rows are only ever added: what counts now follows from them.
--
-- `scope` is a tenant's id, or '' for the server itself. `changes` is JSON, with secrets sealed.
CREATE TABLE setting_changes (
    scope      TEXT NOT NULL,
    revision   INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    actor      TEXT NOT NULL,
    request_id TEXT,
    note       TEXT,
    changes    BLOB NOT NULL,
    PRIMARY KEY (scope, revision)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER setting_changes_stay BEFORE UPDATE ON setting_changes BEGIN
    SELECT RAISE (ABORT, 'the changes of settings are append-only');
END;
CREATE TRIGGER setting_changes_are_kept BEFORE DELETE ON setting_changes BEGIN
    SELECT RAISE (ABORT, 'the changes of settings are append-only');
END;
