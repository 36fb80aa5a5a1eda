-- Messages that agents get at times of a clock (`schedules`) or on request (`triggers`), and the runs of both. A schedule is looked
-- at when `wake_at` has come, which is absent while it is disabled. The secrets of triggers are sealed.

CREATE TABLE schedules (
    position         INTEGER PRIMARY KEY,
    tenant_id        TEXT NOT NULL,
    schedule_id      TEXT NOT NULL UNIQUE,
    name             TEXT NOT NULL,
    container_id     TEXT NOT NULL,
    image_id         TEXT NOT NULL,
    message          TEXT NOT NULL,
    session_mode     TEXT NOT NULL,
    session_id       TEXT,
    on_ask           TEXT NOT NULL,
    budget           BLOB,
    runs_per_day     INTEGER,
    user_id          TEXT,
    key_id           TEXT,
    created_by       TEXT NOT NULL,
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL,
    disabled_at      INTEGER,
    disabled_reason  TEXT,
    last_at          INTEGER,
    last_turn_id     TEXT,
    day              INTEGER NOT NULL,
    day_runs         INTEGER NOT NULL,
    cron             TEXT NOT NULL,
    zone             TEXT NOT NULL,
    missed           TEXT NOT NULL,
    catch_up         INTEGER NOT NULL,
    catch_up_seconds INTEGER NOT NULL,
    overlap          TEXT NOT NULL,
    jitter_seconds   INTEGER NOT NULL,
    next_at          INTEGER,
    wake_at          INTEGER
) STRICT;
CREATE INDEX schedules_of_containers ON schedules (tenant_id, container_id, position);
CREATE INDEX schedules_due ON schedules (wake_at) WHERE wake_at IS NOT NULL;

CREATE TABLE triggers (
    position        INTEGER PRIMARY KEY,
    tenant_id       TEXT NOT NULL,
    trigger_id      TEXT NOT NULL UNIQUE,
    name            TEXT NOT NULL,
    container_id    TEXT NOT NULL,
    image_id        TEXT NOT NULL,
    message         TEXT NOT NULL,
    session_mode     TEXT NOT NULL,
    session_id      TEXT,
    on_ask          TEXT NOT NULL,
    budget          BLOB,
    runs_per_day    INTEGER,
    user_id         TEXT,
    key_id          TEXT,
    created_by      TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    disabled_at     INTEGER,
    disabled_reason TEXT,
    last_at         INTEGER,
    last_turn_id    TEXT,
    day             INTEGER NOT NULL,
    day_runs        INTEGER NOT NULL,
    secret          BLOB NOT NULL,
    previous_secret BLOB,
    previous_until  INTEGER
) STRICT;
CREATE INDEX triggers_of_containers ON triggers (tenant_id, container_id, position);

CREATE TABLE runs (
    position     INTEGER PRIMARY KEY,
    tenant_id    TEXT NOT NULL,
    container_id TEXT NOT NULL,
    source_id    TEXT NOT NULL,
    client_key   TEXT NOT NULL,
    due_at       INTEGER NOT NULL,
    at           INTEGER NOT NULL,
    state        TEXT NOT NULL,
    reason       TEXT,
    count        INTEGER NOT NULL,
    session_id   TEXT,
    turn_id      TEXT,
    UNIQUE (source_id, client_key)
) STRICT;
CREATE INDEX runs_of_sources ON runs (source_id, position);
CREATE INDEX runs_of_containers ON runs (tenant_id, container_id);

-- Why a turn was begun, of one that nobody at a keyboard has begun.
ALTER TABLE turns ADD COLUMN origin BLOB;
