-- Version 33: how many of its transactions a publisher has counted, and a consumer of those by which it noted what no
-- message says again: a process that finds fewer knows that the state was put back to an earlier one.

SET @add = IF((SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
    AND TABLE_NAME = 'position' AND COLUMN_NAME = 'writes') = 0,
  'ALTER TABLE position ADD COLUMN writes BIGINT NOT NULL DEFAULT 0', 'DO 0');

PREPARE add_column FROM @add;

EXECUTE add_column;

DEALLOCATE PREPARE add_column;

SET @add = IF((SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
    AND TABLE_NAME = 'consumed' AND COLUMN_NAME = 'notes') = 0,
  'ALTER TABLE consumed ADD COLUMN notes BIGINT NOT NULL DEFAULT 0', 'DO 0');

PREPARE add_column FROM @add;

EXECUTE add_column;

DEALLOCATE PREPARE add_column;
