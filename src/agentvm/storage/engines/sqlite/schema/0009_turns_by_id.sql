-- The timeline of a turn is asked for by the turn's own name.

CREATE INDEX turns_by_id ON turns (turn_id);
