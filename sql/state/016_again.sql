-- Version 16: rows of a chunk that the target refused and that were parked.

SET @add = IF((SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
    AND TABLE_NAME = 'copy_detail' AND COLUMN_NAME = 'parked') = 0,
  'ALTER TABLE copy_detail ADD COLUMN parked BIGINT NOT NULL DEFAULT 0', 'DO 0');

PREPARE add_column FROM @add;

EXECUTE add_column;

DEALLOCATE PREPARE add_column;
