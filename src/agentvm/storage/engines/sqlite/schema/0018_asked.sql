-- Model calls that were about to be sent and have no entry in the ledger yet.
--
-- A row is committed before its request leaves and dropped with the commit that enters the call, so what a process that died had
-- asked is known and billed by the next. `call_id` is the message that the answer would have become.

CREATE TABLE asked (
    tenant_id    TEXT NOT NULL,
    key          TEXT NOT NULL,
    call_id      TEXT NOT NULL,
    at           INTEGER NOT NULL,
    user_id      TEXT,
    container_id TEXT NOT NULL,
    image_id     TEXT NOT NULL,
    session_id   TEXT NOT NULL,
    turn_id      TEXT NOT NULL,
    driver       TEXT NOT NULL,
    model        TEXT NOT NULL,
    provider     TEXT NOT NULL,
    own_key      INTEGER NOT NULL,
    hosted       INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, key)
) STRICT, WITHOUT ROWID;
