-- Whether a node that has ended has left calls which nobody has entered yet is asked whenever its parts of quotas are looked at.
CREATE INDEX asked_by_node ON asked (node_id) WHERE node_id > 0;
