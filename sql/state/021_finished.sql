-- Version 21: migrations that are finished, with what their details added up to.

SET @add = IF((SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
    AND TABLE_NAME = 'migration' AND COLUMN_NAME = 'finished') = 0,
  'ALTER TABLE migration
    ADD COLUMN finished DATETIME(6) NULL COMMENT "nothing of it runs any more",
    ADD COLUMN summary MEDIUMTEXT NULL COMMENT "JSON: what the details that were removed added up to"',
  'DO 0');

PREPARE add_column FROM @add;

EXECUTE add_column;

DEALLOCATE PREPARE add_column;
