-- What a client of another protocol keeps with its name for a session: a JSON object, and its members, by which it is searched.

ALTER TABLE aliases ADD COLUMN metadata TEXT NOT NULL DEFAULT '{}';

CREATE TABLE alias_members (
    alias_key INTEGER NOT NULL REFERENCES aliases (alias_key) ON DELETE CASCADE,
    name      TEXT NOT NULL,
    value     TEXT NOT NULL,
    PRIMARY KEY (alias_key, name)
) STRICT, WITHOUT ROWID;
