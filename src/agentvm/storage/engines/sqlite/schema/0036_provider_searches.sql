-- Searches that a provider makes by itself are billed one by one.
ALTER TABLE ledger ADD COLUMN web_searches INTEGER NOT NULL DEFAULT 0;

DROP TRIGGER ledger_stays;
CREATE TRIGGER ledger_stays BEFORE UPDATE ON ledger
WHEN NOT (
    NEW.container_id LIKE 'erased-%' AND NEW.position = OLD.position AND NEW.tenant_id = OLD.tenant_id AND NEW.key = OLD.key
    AND NEW.at = OLD.at AND NEW.user_id IS OLD.user_id AND NEW.image_id = OLD.image_id AND NEW.session_id = OLD.session_id
    AND NEW.turn_id = OLD.turn_id AND NEW.driver = OLD.driver AND NEW.model = OLD.model
    AND NEW.input_tokens = OLD.input_tokens AND NEW.output_tokens = OLD.output_tokens
    AND NEW.cache_read_tokens = OLD.cache_read_tokens AND NEW.cache_write_tokens = OLD.cache_write_tokens
    AND NEW.thinking_tokens = OLD.thinking_tokens AND NEW.web_searches = OLD.web_searches AND NEW.estimated = OLD.estimated
    AND NEW.wall_ms = OLD.wall_ms AND NEW.cpu_ms = OLD.cpu_ms AND NEW.cost IS OLD.cost AND NEW.price IS OLD.price
) BEGIN SELECT RAISE (ABORT, 'the ledger is append-only'); END;
