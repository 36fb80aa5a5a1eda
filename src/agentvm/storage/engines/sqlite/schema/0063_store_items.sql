-- Items that clients of LangGraph keep in a container. A namespace ends with a full stop; of a value each member is a line.
CREATE TABLE store_items (
    position INTEGER PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    container_id TEXT NOT NULL,
    namespace TEXT NOT NULL,
    item_key TEXT NOT NULL,
    members TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (tenant_id, container_id, namespace, item_key)
) STRICT;
