-- Version 42: which message a partition is stopped at, where it is one that is refused. NULL: it stopped for something
-- else, or before the state kept it.

SET @add = IF((SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
    AND TABLE_NAME = 'halt' AND COLUMN_NAME = 'message_offset') = 0,
  'ALTER TABLE halt ADD COLUMN message_offset BIGINT NULL', 'DO 0');

PREPARE add_column FROM @add;

EXECUTE add_column;

DEALLOCATE PREPARE add_column;
