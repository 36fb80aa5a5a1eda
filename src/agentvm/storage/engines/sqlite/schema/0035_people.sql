-- Invitations: a link makes one user. `digest` is all that is known of the link; a used or revoked invitation stays as a record.
CREATE TABLE invitations (
    position      INTEGER PRIMARY KEY,
    tenant_id     TEXT NOT NULL,
    invitation_id TEXT NOT NULL,
    role          TEXT NOT NULL,
    external_id   TEXT,
    display_name  TEXT,
    created_by    TEXT NOT NULL,
    created_at    INTEGER NOT NULL,
    expires_at    INTEGER NOT NULL,
    accepted_at   INTEGER,
    revoked_at    INTEGER,
    user_id       TEXT,
    digest        BLOB NOT NULL UNIQUE,
    UNIQUE (tenant_id, invitation_id)
) STRICT;

-- Accounts at the identity provider that belong to users.
CREATE TABLE identities (
    position  INTEGER PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    user_id   TEXT NOT NULL,
    issuer    TEXT NOT NULL,
    subject   TEXT NOT NULL,
    UNIQUE (issuer, subject)
) STRICT;
CREATE INDEX identities_of_users ON identities (tenant_id, user_id);

-- How a user likes the console. Without a user they belong to the key, and without a key to everybody of the tenant.
CREATE TABLE preferences (
    position   INTEGER PRIMARY KEY,
    tenant_id  TEXT NOT NULL,
    user_id    TEXT NOT NULL,
    key_id     TEXT NOT NULL,
    language   TEXT,
    theme      TEXT,
    send_key   TEXT,
    density    TEXT,
    shortcuts  TEXT,
    UNIQUE (tenant_id, user_id, key_id)
) STRICT;
