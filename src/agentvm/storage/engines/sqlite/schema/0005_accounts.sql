-- Tenants, their users, keys, quotas and secrets; what was done; what was used and paid.
--
-- Every row names its tenant and is found by it. Money is INTEGER nano-USD, so that sums are exact.

-- A deleted tenant keeps its row: its id is never given out again, because its containers, ledger and audit log stay.
CREATE TABLE tenants (
    tenant_id   TEXT NOT NULL PRIMARY KEY,
    slug        TEXT NOT NULL,
    name        TEXT NOT NULL,
    description TEXT,
    status      TEXT NOT NULL,
    plan        TEXT,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    deleted_at  INTEGER
) STRICT;
CREATE UNIQUE INDEX tenants_by_slug ON tenants (slug) WHERE deleted_at IS NULL;

CREATE TABLE users (
    position     INTEGER PRIMARY KEY,
    tenant_id    TEXT NOT NULL,
    user_id      TEXT NOT NULL,
    external_id  TEXT NOT NULL,
    display_name TEXT,
    role         TEXT NOT NULL,
    status       TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    UNIQUE (tenant_id, user_id),
    UNIQUE (tenant_id, external_id)
) STRICT;

-- The container need not be there yet: it is made when its user first comes.
CREATE TABLE bindings (
    position     INTEGER PRIMARY KEY,
    tenant_id    TEXT NOT NULL,
    user_id      TEXT NOT NULL,
    container_id TEXT NOT NULL,
    UNIQUE (tenant_id, user_id, container_id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users (tenant_id, user_id) ON DELETE CASCADE
) STRICT;
CREATE INDEX bindings_in_order ON bindings (tenant_id, user_id);

-- `key_id` is unique among all tenants: it is how a caller becomes one of them. `digest` is all that is known of the key.
CREATE TABLE api_keys (
    position     INTEGER PRIMARY KEY,
    key_id       TEXT NOT NULL UNIQUE,
    tenant_id    TEXT NOT NULL,
    user_id      TEXT,
    name         TEXT NOT NULL,
    digest       BLOB NOT NULL,
    permissions  BLOB NOT NULL,
    containers   BLOB,
    expires_at   INTEGER,
    created_by   TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    last_used_at INTEGER,
    revoked_at   INTEGER
) STRICT;
CREATE INDEX api_keys_by_age ON api_keys (tenant_id, created_at);
CREATE INDEX api_keys_of_users ON api_keys (tenant_id, user_id, created_at);
CREATE INDEX api_keys_in_force ON api_keys (tenant_id) WHERE revoked_at IS NULL;

-- Without a user it is the tenant's own. UNIQUE takes two NULLs for different, hence the second index.
CREATE TABLE quotas (
    position   INTEGER PRIMARY KEY,
    tenant_id  TEXT NOT NULL,
    user_id    TEXT,
    metric     TEXT NOT NULL,
    hard       INTEGER,
    soft       INTEGER,
    updated_at INTEGER NOT NULL,
    UNIQUE (tenant_id, user_id, metric)
) STRICT;
CREATE UNIQUE INDEX quotas_of_tenants ON quotas (tenant_id, metric) WHERE user_id IS NULL;

CREATE TABLE secrets (
    tenant_id  TEXT NOT NULL,
    name       TEXT NOT NULL,
    sealed     BLOB NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, name)
) STRICT;

CREATE TABLE audit (
    position   INTEGER PRIMARY KEY,
    tenant_id  TEXT NOT NULL,
    at         INTEGER NOT NULL,
    actor      TEXT NOT NULL,
    action     TEXT NOT NULL,
    target     TEXT NOT NULL,
    result     TEXT NOT NULL,
    address    TEXT,
    request_id TEXT
) STRICT;
CREATE INDEX audit_in_order ON audit (tenant_id);
CREATE INDEX audit_by_action ON audit (tenant_id, action);

-- One row per model call. `key` names the call, so that no replay bills it twice. NULL is a price that nobody knows.
CREATE TABLE ledger (
    position           INTEGER PRIMARY KEY,
    tenant_id          TEXT NOT NULL,
    key                TEXT NOT NULL,
    at                 INTEGER NOT NULL,
    user_id            TEXT,
    container_id       TEXT NOT NULL,
    image_id           TEXT NOT NULL,
    session_id         TEXT NOT NULL,
    turn_id            TEXT NOT NULL,
    driver             TEXT NOT NULL,
    model              TEXT NOT NULL,
    input_tokens       INTEGER NOT NULL,
    output_tokens      INTEGER NOT NULL,
    cache_read_tokens  INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    thinking_tokens    INTEGER NOT NULL,
    estimated          INTEGER NOT NULL,
    cost               INTEGER,
    price              INTEGER,
    UNIQUE (tenant_id, key)
) STRICT;
CREATE INDEX ledger_in_order ON ledger (tenant_id);
CREATE INDEX ledger_by_time ON ledger (tenant_id, at);
CREATE INDEX ledger_of_users ON ledger (tenant_id, user_id, at);
CREATE INDEX ledger_of_turns ON ledger (tenant_id, turn_id);

CREATE TABLE credits (
    position  INTEGER PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    reference TEXT NOT NULL,
    at        INTEGER NOT NULL,
    amount    INTEGER NOT NULL,
    note      TEXT,
    actor     TEXT NOT NULL,
    UNIQUE (tenant_id, reference)
) STRICT;
CREATE INDEX credits_by_age ON credits (tenant_id, at);

-- The sums of a tenant's credits and ledger. The triggers below keep them, so no way of adding a row can forget to.
CREATE TABLE wallets (
    tenant_id TEXT NOT NULL PRIMARY KEY,
    credited  INTEGER NOT NULL DEFAULT 0,
    spent     INTEGER NOT NULL DEFAULT 0,
    prepaid   INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TRIGGER ledger_is_spent AFTER INSERT ON ledger BEGIN
    INSERT INTO wallets (tenant_id, spent) VALUES (NEW.tenant_id, coalesce(NEW.price, 0))
    ON CONFLICT (tenant_id) DO UPDATE SET spent = spent + excluded.spent;
END;
CREATE TRIGGER credits_are_credited AFTER INSERT ON credits BEGIN
    INSERT INTO wallets (tenant_id, credited, prepaid) VALUES (NEW.tenant_id, NEW.amount, 1)
    ON CONFLICT (tenant_id) DO UPDATE SET credited = credited + excluded.credited, prepaid = 1;
END;

CREATE TRIGGER ledger_stays BEFORE UPDATE ON ledger BEGIN SELECT RAISE (ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER ledger_is_kept BEFORE DELETE ON ledger BEGIN SELECT RAISE (ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER credits_stay BEFORE UPDATE ON credits BEGIN SELECT RAISE (ABORT, 'credits are append-only'); END;
CREATE TRIGGER credits_are_kept BEFORE DELETE ON credits BEGIN SELECT RAISE (ABORT, 'credits are append-only'); END;
CREATE TRIGGER audit_stays BEFORE UPDATE ON audit BEGIN SELECT RAISE (ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_is_kept BEFORE DELETE ON audit BEGIN SELECT RAISE (ABORT, 'the audit log is append-only'); END;

-- Who sent the message: a turn that goes on after a crash is billed to the same user.
ALTER TABLE turns ADD COLUMN user_id TEXT;
