-- Version 37: when the server that a publisher reads was started: one that was restarted may have written without its
-- log meanwhile.

SET @add = IF((SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
    AND TABLE_NAME = 'position' AND COLUMN_NAME = 'started') = 0,
  'ALTER TABLE position ADD COLUMN started BIGINT NOT NULL DEFAULT 0', 'DO 0');

PREPARE add_column FROM @add;

EXECUTE add_column;

DEALLOCATE PREPARE add_column;
