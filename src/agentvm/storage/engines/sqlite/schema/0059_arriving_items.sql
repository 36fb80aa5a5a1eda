-- Memories, schedules and triggers that come in with an archive: hidden until all of it is there, as sessions are.
ALTER TABLE memories ADD COLUMN arrival_key INTEGER;
ALTER TABLE schedules ADD COLUMN arrival_key INTEGER;
ALTER TABLE triggers ADD COLUMN arrival_key INTEGER;
CREATE INDEX memories_of_arrivals ON memories (arrival_key) WHERE arrival_key IS NOT NULL;
CREATE INDEX schedules_of_arrivals ON schedules (arrival_key) WHERE arrival_key IS NOT NULL;
CREATE INDEX triggers_of_arrivals ON triggers (arrival_key) WHERE arrival_key IS NOT NULL;
