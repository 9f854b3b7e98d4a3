-- Version 3: a position knows when its binlog file was begun, as names start over after RESET MASTER.

SET @add = IF((SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
    AND TABLE_NAME = 'position' AND COLUMN_NAME = 'file_created') = 0,
  'ALTER TABLE position ADD COLUMN file_created BIGINT UNSIGNED NOT NULL DEFAULT 0
    COMMENT "by the header of its first event, seconds since 1970; 0: not known"', 'DO 0');

PREPARE add_column FROM @add;

EXECUTE add_column;

DEALLOCATE PREPARE add_column;
