-- The parts of limits that each node of a cluster may use by itself; see `agentvm.storage.sql.accounts.quota_parts`.
CREATE TABLE quota_parts (
    tenant_id TEXT NOT NULL,
    metric    TEXT NOT NULL,
    user_id   TEXT NOT NULL,
    begins    INTEGER NOT NULL,
    node_id   INTEGER NOT NULL,
    amount    INTEGER NOT NULL,
    ends      INTEGER,
    PRIMARY KEY (tenant_id, metric, user_id, begins, node_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX quota_parts_by_time ON quota_parts (ends) WHERE ends IS NOT NULL;
-- The node that has entered it: when a node has ended, its parts become what it has used.
ALTER TABLE ledger ADD COLUMN node_id INTEGER NOT NULL DEFAULT 0;
CREATE TRIGGER notice_of_quota AFTER INSERT ON quotas WHEN EXISTS (SELECT 1 FROM nodes WHERE state = 'up') BEGIN
    INSERT INTO notices (kind, tenant_id, subject, at)
    VALUES ('quota', new.tenant_id, new.tenant_id, CAST(unixepoch('subsec') * 1000 AS INTEGER));
END;
CREATE TRIGGER notice_of_quota_removed AFTER DELETE ON quotas WHEN EXISTS (SELECT 1 FROM nodes WHERE state = 'up') BEGIN
    INSERT INTO notices (kind, tenant_id, subject, at)
    VALUES ('quota', old.tenant_id, old.tenant_id, CAST(unixepoch('subsec') * 1000 AS INTEGER));
END;
CREATE TRIGGER notice_of_credit AFTER INSERT ON credits WHEN EXISTS (SELECT 1 FROM nodes WHERE state = 'up') BEGIN
    INSERT INTO notices (kind, tenant_id, subject, at)
    VALUES ('quota', new.tenant_id, new.tenant_id, CAST(unixepoch('subsec') * 1000 AS INTEGER));
END;
CREATE TRIGGER notice_of_plan AFTER UPDATE OF plan ON tenants WHEN EXISTS (SELECT 1 FROM nodes WHERE state = 'up') AND old.plan IS NOT new.plan BEGIN
    INSERT INTO notices (kind, tenant_id, subject, at)
    VALUES ('quota', new.tenant_id, new.tenant_id, CAST(unixepoch('subsec') * 1000 AS INTEGER));
END;
