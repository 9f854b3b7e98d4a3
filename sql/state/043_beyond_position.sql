-- Version 43: what the topics hold of a source beyond its position from runs of its publisher before the present one, which
-- another server in its place must have. NULL: before the state kept it.

SET @add = IF((SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
    AND TABLE_NAME = 'position' AND COLUMN_NAME = 'beyond_gtids') = 0,
  'ALTER TABLE position ADD COLUMN beyond_gtids MEDIUMTEXT NULL, ADD COLUMN beyond_newest BIGINT NULL,
    ADD COLUMN beyond_ends MEDIUMTEXT NULL', 'DO 0');

PREPARE add_columns FROM @add;

EXECUTE add_columns;

DEALLOCATE PREPARE add_columns;
