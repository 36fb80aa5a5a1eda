-- What nodes of a cluster ask each other, and the answers, until they are taken.
CREATE TABLE node_asks (
    ask_id INTEGER PRIMARY KEY AUTOINCREMENT,
    to_node INTEGER NOT NULL,
    from_node INTEGER NOT NULL,
    body BLOB NOT NULL,
    reply BLOB,
    asked_at INTEGER NOT NULL
) STRICT;
CREATE INDEX node_asks_open ON node_asks (to_node) WHERE reply IS NULL;
