-- Messages whose words are not in the search yet: these are written beside the turns, many at a time.
CREATE TABLE search_pending (
    position    INTEGER PRIMARY KEY,
    session_key INTEGER NOT NULL,
    tenant_id   TEXT NOT NULL
) STRICT;
-- Whoever searches looks for the own ones, however many there are of others.
CREATE INDEX search_pending_by_tenant ON search_pending (tenant_id, position);

-- However a message goes, it need not be taken in any more.
CREATE TRIGGER messages_need_no_search AFTER DELETE ON all_messages BEGIN
    DELETE FROM search_pending WHERE position = old.position;
END;
