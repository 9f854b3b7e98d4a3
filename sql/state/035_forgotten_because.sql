-- Version 35: why nothing counts as compared any more, and since when, as `migrate status` says it.

SET @add = IF((SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
    AND TABLE_NAME = 'forgotten' AND COLUMN_NAME = 'because') = 0,
  'ALTER TABLE forgotten ADD COLUMN because VARCHAR(512) NOT NULL DEFAULT ''''', 'DO 0');

PREPARE add_column FROM @add;

EXECUTE add_column;

DEALLOCATE PREPARE add_column;

SET @add = IF((SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
    AND TABLE_NAME = 'forgotten' AND COLUMN_NAME = 'at') = 0,
  'ALTER TABLE forgotten ADD COLUMN at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)', 'DO 0');

PREPARE add_column FROM @add;

EXECUTE add_column;

DEALLOCATE PREPARE add_column;
