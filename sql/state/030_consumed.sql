-- Version 30: up to where all databases had a partition when one of them was found to have lost writes.

SET @add = IF((SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
    AND TABLE_NAME = 'lost_writes' AND COLUMN_NAME = 'consumed') = 0,
  'ALTER TABLE lost_writes ADD COLUMN consumed BIGINT NOT NULL DEFAULT 0', 'DO 0');

PREPARE add_column FROM @add;

EXECUTE add_column;

DEALLOCATE PREPARE add_column;
