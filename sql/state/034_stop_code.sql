-- Version 34: what kind of thing stopped a process or a partition for good, for programs that watch.

SET @add = IF((SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
    AND TABLE_NAME = 'halt' AND COLUMN_NAME = 'code') = 0,
  'ALTER TABLE halt ADD COLUMN code VARCHAR(16) NOT NULL DEFAULT ''''', 'DO 0');

PREPARE add_column FROM @add;

EXECUTE add_column;

DEALLOCATE PREPARE add_column;
