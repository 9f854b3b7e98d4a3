-- Version 32: with which version of the switch every database was frozen last: one that has less lost what it committed.

SET @add = IF((SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
    AND TABLE_NAME = 'application_switch' AND COLUMN_NAME = 'frozen') = 0,
  'ALTER TABLE application_switch ADD COLUMN frozen BIGINT NOT NULL DEFAULT 0', 'DO 0');

PREPARE add_column FROM @add;

EXECUTE add_column;

DEALLOCATE PREPARE add_column;
