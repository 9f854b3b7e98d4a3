-- Version 18: since when something stands still; `at` is its last try.

SET @add = IF((SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
    AND TABLE_NAME = 'halt' AND COLUMN_NAME = 'since') = 0,
  'ALTER TABLE halt ADD COLUMN since DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)', 'DO 0');

PREPARE add_column FROM @add;

EXECUTE add_column;

DEALLOCATE PREPARE add_column;

UPDATE halt SET since = at WHERE since > at;
