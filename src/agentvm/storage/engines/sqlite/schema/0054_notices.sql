-- What every node of a cluster must know at once, written by the transaction that changes it; nothing while there is no node.
CREATE TABLE notices (
    notice_id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind      TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    subject   TEXT NOT NULL,
    at        INTEGER NOT NULL
) STRICT;
CREATE INDEX notices_by_time ON notices (at);
CREATE TRIGGER notice_of_key AFTER UPDATE OF revoked_at, expires_at ON api_keys
WHEN EXISTS (SELECT 1 FROM nodes WHERE state = 'up') BEGIN
    INSERT INTO notices (kind, tenant_id, subject, at)
    VALUES ('key', new.tenant_id, new.key_id, CAST(unixepoch('subsec') * 1000 AS INTEGER));
END;
CREATE TRIGGER notice_of_user AFTER UPDATE OF role, status, deleted_at ON users
WHEN EXISTS (SELECT 1 FROM nodes WHERE state = 'up')
 AND (old.role <> new.role OR old.status <> new.status OR old.deleted_at IS NOT new.deleted_at) BEGIN
    INSERT INTO notices (kind, tenant_id, subject, at)
    VALUES ('user', new.tenant_id, new.user_id, CAST(unixepoch('subsec') * 1000 AS INTEGER));
END;
CREATE TRIGGER notice_of_binding AFTER INSERT ON bindings WHEN EXISTS (SELECT 1 FROM nodes WHERE state = 'up') BEGIN
    INSERT INTO notices (kind, tenant_id, subject, at)
    VALUES ('bound', new.tenant_id, new.user_id, CAST(unixepoch('subsec') * 1000 AS INTEGER));
END;
CREATE TRIGGER notice_of_unbinding AFTER DELETE ON bindings WHEN EXISTS (SELECT 1 FROM nodes WHERE state = 'up') BEGIN
    INSERT INTO notices (kind, tenant_id, subject, at)
    VALUES ('unbound', old.tenant_id, old.user_id, CAST(unixepoch('subsec') * 1000 AS INTEGER));
END;
CREATE TRIGGER notice_of_tenant AFTER UPDATE OF status, deleted_at ON tenants
WHEN EXISTS (SELECT 1 FROM nodes WHERE state = 'up')
 AND (old.status <> new.status OR old.deleted_at IS NOT new.deleted_at) BEGIN
    INSERT INTO notices (kind, tenant_id, subject, at)
    VALUES ('tenant', new.tenant_id, new.tenant_id, CAST(unixepoch('subsec') * 1000 AS INTEGER));
END;
CREATE TRIGGER notice_of_sign_out AFTER DELETE ON browser_sessions WHEN EXISTS (SELECT 1 FROM nodes WHERE state = 'up') BEGIN
    INSERT INTO notices (kind, tenant_id, subject, at)
    VALUES ('signed_out', old.tenant_id, old.browser_session_id, CAST(unixepoch('subsec') * 1000 AS INTEGER));
END;
CREATE TRIGGER notice_of_settings AFTER INSERT ON setting_changes WHEN EXISTS (SELECT 1 FROM nodes WHERE state = 'up') BEGIN
    INSERT INTO notices (kind, tenant_id, subject, at)
    VALUES ('settings', new.scope, new.scope, CAST(unixepoch('subsec') * 1000 AS INTEGER));
END;
CREATE TRIGGER notice_of_webhook AFTER INSERT ON webhooks WHEN EXISTS (SELECT 1 FROM nodes WHERE state = 'up') BEGIN
    INSERT INTO notices (kind, tenant_id, subject, at)
    VALUES ('webhook', new.tenant_id, new.webhook_id, CAST(unixepoch('subsec') * 1000 AS INTEGER));
END;
CREATE TRIGGER notice_of_quarantine AFTER UPDATE OF quarantine ON sessions
WHEN EXISTS (SELECT 1 FROM nodes WHERE state = 'up') AND old.quarantine IS NOT new.quarantine BEGIN
    INSERT INTO notices (kind, tenant_id, subject, at)
    VALUES ('quarantine', new.tenant_id, new.session_id, CAST(unixepoch('subsec') * 1000 AS INTEGER));
END;
