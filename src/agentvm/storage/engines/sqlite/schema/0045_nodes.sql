-- Nodes: the processes that share one database, and which of them runs which session.

-- One row for each start of a process, so a number never means another process. `state` is up, gone (it has left) or dead.
CREATE TABLE nodes (
    node_id    INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT NOT NULL,
    version    TEXT NOT NULL,
    state      TEXT NOT NULL,
    started_at INTEGER NOT NULL
) STRICT;

-- Apart from `nodes`, whose rows every commit of a node locks: a node says every second that it is there.
CREATE TABLE node_beats (
    node_id INTEGER PRIMARY KEY,
    until   INTEGER NOT NULL,
    beats   INTEGER NOT NULL
) STRICT;

-- `runner` is the node that runs a turn of the session, NULL for none. `tail_of` is a node that has ended, in whose journal the
-- end of the session's log is that its runner is still to take over.
ALTER TABLE sessions ADD COLUMN runner INTEGER;
ALTER TABLE sessions ADD COLUMN tail_of INTEGER;
CREATE INDEX sessions_by_runner ON sessions (runner) WHERE runner IS NOT NULL;
CREATE INDEX sessions_by_tail ON sessions (tail_of) WHERE tail_of IS NOT NULL;

-- 0 is a server that has its database alone.
ALTER TABLE journal ADD COLUMN node_id INTEGER NOT NULL DEFAULT 0;
CREATE INDEX journal_by_node ON journal (node_id, entry);
ALTER TABLE arrivals ADD COLUMN node_id INTEGER NOT NULL DEFAULT 0;
