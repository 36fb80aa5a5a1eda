-- Jobs of sandboxes are entered like model calls, with driver `tier` and the tier as model: the time they took, and that of the
-- processor.
ALTER TABLE ledger ADD COLUMN wall_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ledger ADD COLUMN cpu_ms INTEGER NOT NULL DEFAULT 0;
