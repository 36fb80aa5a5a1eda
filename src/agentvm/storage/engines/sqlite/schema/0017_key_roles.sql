-- A key of a user acts at most with the role that the user had when it was made, so that who holds a key of somebody is not
-- promoted with them.
ALTER TABLE api_keys ADD COLUMN role TEXT;
UPDATE api_keys SET role = (
    SELECT role FROM users WHERE users.tenant_id = api_keys.tenant_id AND users.user_id = api_keys.user_id
) WHERE user_id IS NOT NULL;

-- Keys that were made while authentication was off, and keys that were made with those, are in force no more: anybody who
-- could reach the server then may have them. The id of the key that made another is at the end of its `created_by`.
WITH RECURSIVE
    made_by (key_id, parent) AS MATERIALIZED (SELECT key_id, substr(created_by, -12) FROM api_keys),
    made_open (key_id) AS (
        SELECT key_id FROM api_keys WHERE created_by = 'anonymous'
        UNION
        SELECT made_by.key_id FROM made_open JOIN made_by ON made_by.parent = made_open.key_id
    )
UPDATE api_keys SET revoked_at = coalesce(revoked_at, created_at) WHERE key_id IN (SELECT key_id FROM made_open);
