-- A summary of what strangers have written is itself their text.

ALTER TABLE summaries ADD COLUMN tainted INTEGER NOT NULL DEFAULT 0;
