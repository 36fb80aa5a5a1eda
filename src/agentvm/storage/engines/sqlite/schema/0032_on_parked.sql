-- 'queue' for a message that waits behind a parked turn of its session, instead of ending it.

ALTER TABLE turns ADD COLUMN on_parked TEXT;
