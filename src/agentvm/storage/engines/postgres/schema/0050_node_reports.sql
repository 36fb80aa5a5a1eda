-- What a node says of itself when it renews its lease, as JSON; see `agentvm.model.node`.
ALTER TABLE node_beats ADD COLUMN report text COLLATE "C" NOT NULL DEFAULT '{}';
