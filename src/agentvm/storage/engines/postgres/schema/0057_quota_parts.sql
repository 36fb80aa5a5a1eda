-- The parts of limits that each node of a cluster may use by itself; see `agentvm.storage.sql.accounts.quota_parts`.
CREATE TABLE quota_parts (
    tenant_id text COLLATE "C" NOT NULL,
    metric text COLLATE "C" NOT NULL,
    user_id text COLLATE "C" NOT NULL,
    begins bigint NOT NULL,
    node_id bigint NOT NULL,
    amount bigint NOT NULL,
    ends bigint,
    PRIMARY KEY (tenant_id, metric, user_id, begins, node_id)
);
CREATE INDEX quota_parts_by_time ON quota_parts (ends) WHERE ends IS NOT NULL;
-- The node that has entered it: when a node has ended, its parts become what it has used.
ALTER TABLE ledger ADD COLUMN node_id bigint NOT NULL DEFAULT 0;
CREATE TRIGGER notice_of_quota AFTER INSERT ON quotas
    FOR EACH ROW EXECUTE FUNCTION note_for_nodes('quota', 'tenant_id', 'tenant_id');
CREATE TRIGGER notice_of_quota_removed AFTER DELETE ON quotas
    FOR EACH ROW EXECUTE FUNCTION note_for_nodes('quota', 'tenant_id', 'tenant_id');
CREATE TRIGGER notice_of_credit AFTER INSERT ON credits
    FOR EACH ROW EXECUTE FUNCTION note_for_nodes('quota', 'tenant_id', 'tenant_id');
CREATE TRIGGER notice_of_plan AFTER UPDATE OF plan ON tenants FOR EACH ROW WHEN (old.plan IS DISTINCT FROM new.plan)
    EXECUTE FUNCTION note_for_nodes('quota', 'tenant_id', 'tenant_id');
