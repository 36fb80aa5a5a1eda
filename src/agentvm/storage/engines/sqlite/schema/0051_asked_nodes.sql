-- The node that has asked a model; what it had not entered in the ledger when it ended, another one enters.
ALTER TABLE asked ADD COLUMN node_id INTEGER NOT NULL DEFAULT 0;
